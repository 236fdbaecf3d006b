// `sluice flag-pages`, hidden: the build runs it to write what is installed beside the program.

#include "command.h"
#include "flag_pages.h"
#include "output.h"

namespace sluice::cli {

void add_flag_pages_command(CLI::App &app, int &exit_code) {
    CLI::App *command = app.add_subcommand("flag-pages", "Prints the manual page or a shell's completion.");
    command->group(""); // not in the help
    auto *const page = command->add_option("PAGE", "manual, bash, zsh or fish")
                           ->required()
                           ->check(CLI::IsMember({"manual", "bash", "zsh", "fish"}));
    command->callback([&app, &exit_code, page] {
        const auto name = page->as<std::string>();
        TextOutput output;
        output.write(name == "manual" ? manual_page(app)
                     : name == "bash" ? bash_completion(app)
                     : name == "zsh"  ? zsh_completion(app)
                                      : fish_completion(app));
        const Status written = output.status();
        exit_code = written ? kOk : report(written.error());
    });
}

} // namespace sluice::cli
