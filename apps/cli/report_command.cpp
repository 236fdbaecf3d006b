// sluice report: one HTML page that shows runs side by side.

#include "command.h"
#include "output.h"
#include "page.h"
#include "pages.h"
#include "run_csv.h"
#include "text_file.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

constexpr size_t kMostBytes = size_t{64} << 20U; // of all files together; about 300,000 tokens

struct ReportFlags {
    std::vector<std::string> runs;
    std::string out;
};

/// The last `parts` components of the path, without the ending ".csv".
std::string tail_of(const std::filesystem::path &path, size_t parts) {
    std::filesystem::path tail = path.extension() == ".csv" ? path.stem() : path.filename();
    std::filesystem::path rest = path.parent_path();
    for (size_t i = 1; i < parts && rest.has_filename(); ++i, rest = rest.parent_path()) {
        tail = rest.filename() / tail;
    }
    return tail.string();
}

/// What to call each run: as much of the end of its path as tells it from the others. Where folders are is
/// nobody's business who is sent the page.
std::vector<std::string> names_of(const std::vector<std::string> &paths) {
    constexpr size_t kMostParts = 4;
    std::vector<std::string> names(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
        const auto is_shared = [&](size_t parts) {
            return std::count_if(paths.begin(), paths.end(), [&](const std::string &path) {
                       return tail_of(path, parts) == tail_of(paths[i], parts);
                   }) > 1;
        };
        size_t parts = 1;
        while (parts <= kMostParts && is_shared(parts)) {
            ++parts;
        }
        names[i] = parts <= kMostParts ? tail_of(paths[i], parts)
                                       : fmt::format("{} ({})", tail_of(paths[i], 1), i + 1);
    }
    return names;
}

Status make_report(const ReportFlags &flags) {
    if (Status writable = check_output(flags.out, flags.runs); !writable) {
        return writable;
    }
    const std::vector<std::string> names = names_of(flags.runs);
    nlohmann::json data = {{"version", SLUICE_VERSION}, {"runs", nlohmann::json::array()}};
    size_t total = 0;
    for (size_t i = 0; i < flags.runs.size(); ++i) {
        const auto text = read_text_file(flags.runs[i], kMostBytes);
        if (!text) {
            return fail(text.error());
        }
        total += text->size();
        if (total > kMostBytes) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("these files have more than {} MiB together, which is more than a page "
                                    "can show",
                                    kMostBytes >> 20U));
        }
        const auto lines = check_run_csv(*text, flags.runs[i]);
        if (!lines) {
            return fail(lines.error());
        }
        data["runs"].push_back({{"name", names[i]}, {"text", *lines}});
    }
    if (Status written = write_page(flags.out, report_page(), data); !written) {
        return written;
    }
    TextOutput output;
    output.write(flags.out + "\n");
    return output.status();
}

} // namespace

void add_report_command(CLI::App &app, int &exit_code) {
    CLI::App *command =
        app.add_subcommand("report", "Make an HTML page with charts of one or several runs' CSV files");
    auto flags = std::make_shared<ReportFlags>();
    command->add_option("CSV", flags->runs, "Files that sluice run --csv wrote")->required();
    command->add_option("-o,--out", flags->out, "Page to write")->required();
    command->callback([flags, &exit_code] {
        const Status status = make_report(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
