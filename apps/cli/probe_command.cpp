// sluice probe: how fast storage, memory and processor are for streaming experts.

#include "command.h"
#include "output.h"
#include "terminal.h"

#include "engine/probe.h"
#include "telemetry/summary.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

using storage::ProbeResult;
using storage::ReadChoice;
using storage::ReadCurve;
using storage::ReadEngineKind;
using storage::ReadRate;

struct ProbeFlags {
    engine::ProbeOptions options;
    uint64_t temporary_mib = 512;
    bool json = false;
    bool no_cache = false;
};

const char *name_of(ReadEngineKind kind) {
    return kind == ReadEngineKind::Uring ? "io_uring" : "threads";
}

/// "1 MiB" and "16 KiB" rather than "1.0 MiB".
std::string size_text(uint64_t bytes) {
    return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20) : telemetry::human_bytes(bytes);
}

bool has_numbers(const ReadCurve &curve) {
    return std::ranges::any_of(curve.rates,
                               [](const ReadRate &rate) { return rate.mib_per_second.has_value(); });
}

/// Widths run along the top; a curve without any number gives its reason in their place.
std::string curve_line(const ReadCurve &curve) {
    std::string line = fmt::format("{:<11}{:<9}", size_text(curve.read_bytes), name_of(curve.engine));
    if (!curve.rates.empty() && !has_numbers(curve)) {
        return line + "unmeasured: " + curve.rates.front().unmeasured + "\n";
    }
    for (const ReadRate &rate : curve.rates) {
        line += rate.mib_per_second ? fmt::format("{:>11.0f}", *rate.mib_per_second)
                                    : fmt::format("{:>11}", "unmeasured");
    }
    return line + "\n";
}

std::string choice_line(const std::string &what, const std::optional<ReadChoice> &choice) {
    if (!choice) {
        return fmt::format("best for {}: unmeasured\n", what);
    }
    return fmt::format("best for {}: {}, {} at once: {:.0f} MiB/s\n", what, name_of(choice->engine),
                       choice->width, choice->mib_per_second);
}

std::string rate_text(const std::optional<double> &rate) {
    return rate ? fmt::format("{:.1f} GB/s", *rate) : "unmeasured";
}

std::string machine_lines(const storage::MachineRates &machine) {
    const auto line = [&machine](const char *what, const auto &one, const auto &all) {
        return fmt::format("{}: {} on one core, {} on {}\n", what, rate_text(one), rate_text(all),
                           machine.cores);
    };
    return line("reading memory", machine.memory_one_core, machine.memory_all_cores) +
           line("multiplying q4_K weights", machine.compute_one_core, machine.compute_all_cores) +
           (machine.unmeasured.empty() ? "" : fmt::format("note: {}\n", machine.unmeasured));
}

/// Why single widths have no number, each reason once.
std::string gap_lines(const std::vector<ReadCurve> &curves) {
    std::vector<std::string> lines;
    for (const ReadCurve &curve : curves) {
        for (const ReadRate &rate : curve.rates) {
            std::string line = fmt::format("note: some are unmeasured: {}\n", rate.unmeasured);
            if (has_numbers(curve) && !rate.mib_per_second && std::ranges::find(lines, line) == lines.end()) {
                lines.push_back(std::move(line));
            }
        }
    }
    return fmt::format("{}", fmt::join(lines, ""));
}

std::string table(const std::vector<ReadCurve> &curves) {
    std::vector<int> widths; // the longest row of them
    std::string rows;
    for (const ReadCurve &curve : curves) {
        rows += curve_line(curve);
        for (size_t i = widths.size(); i < curve.rates.size(); ++i) {
            widths.push_back(curve.rates[i].width);
        }
    }
    std::string head = fmt::format("{:<20}", "MiB/s, at once:");
    for (const int width : widths) {
        head += fmt::format("{:>11}", width);
    }
    return head + "\n" + rows;
}

std::string report_text(const ProbeResult &result) {
    std::string text = result.device.describe();
    if (result.slices || result.small) {
        text +=
            result.direct ? ", direct reads in random order" : ", random reads through an emptied page cache";
    }
    text += "\n" + table(result.curves);
    text += choice_line("slices of " + size_text(result.slice_bytes), result.slices);
    text += choice_line("reads of " + size_text(storage::small_read_bytes), result.small);
    text += machine_lines(result.machine);
    for (const std::string &note : result.notes) {
        text += fmt::format("note: {}\n", note);
    }
    return text + gap_lines(result.curves);
}

Result<ProbeResult> measure(const ProbeFlags &flags) {
    ProgressLine progress;
    const InterruptGuard interrupt;
    bool announced = false;
    engine::ProbeOptions options = flags.options;
    options.temporary_bytes = flags.temporary_mib << 20;
    options.engine_version = SLUICE_VERSION;
    options.progress = [&](const std::string &what, double done) {
        if (!std::exchange(announced, true)) {
            std::fprintf(stderr, "probing %s for up to 10 seconds; what else runs meanwhile slows it down\n",
                         options.path.c_str());
        }
        progress.show(what, done);
        return !interrupt.interrupted();
    };
    return engine::run_probe(options);
}

/// Whether anything is known about storage now.
Status storage_measured(const ProbeResult &result, const std::string &path) {
    if (result.slices || result.small) {
        return {};
    }
    const std::string why =
        result.curves.empty() ? "no reads" : result.curves.front().rates.front().unmeasured;
    return fail(ErrorCode::Unsupported, fmt::format("the storage of {} is unmeasured: {}", path, why));
}

Status probe(const ProbeFlags &flags) {
    const Result<ProbeResult> result = measure(flags);
    if (!result) {
        return fail(result.error());
    }
    TextOutput output;
    output.write(flags.json ? storage::to_json(*result) : report_text(*result));
    if (Status written = output.status(); !written) {
        return written;
    }
    if (Status measured = storage_measured(*result, flags.options.path); !measured) {
        return measured; // and an earlier result, if there is one, stays
    }
    if (!flags.no_cache) {
        const Result<std::string> saved = storage::save_probe(*result);
        // What was asked for is on stdout, so this is no failure: a read-only home is not unusual.
        std::fprintf(stderr, "%s\n",
                     saved ? ("saved in " + *saved).c_str()
                           : ("sluice: the result is not saved: " + saved.error().message).c_str());
    }
    return {};
}

} // namespace

void add_probe_command(CLI::App &app, int &exit_code) {
    CLI::App *command =
        app.add_subcommand("probe", "Measure how fast storage, memory and processor are for streaming");
    auto flags = std::make_shared<ProbeFlags>();
    flags->options.path = ".";
    command
        ->add_option("path", flags->options.path,
                     "A model to read from, or a directory to write a temporary file in")
        ->capture_default_str();
    command->add_flag("--json", flags->json, "Print the result as JSON");
    command->add_flag("--no-cache", flags->no_cache, "Don't save the result for later runs");
    command->add_option("--temporary-mb", flags->temporary_mib, "Size of the temporary file in MiB, at most")
        ->check(CLI::Range(16, 65536))
        ->capture_default_str();
    command->callback([flags, &exit_code] {
        const Status status = probe(*flags);
        exit_code = status ? kOk : report(status.error());
    });
}

} // namespace sluice::cli
