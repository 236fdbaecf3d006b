#include "run_csv.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

namespace sluice::cli {

namespace {

constexpr std::string_view kSignature = "# sluice ";

std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (;;) {
        const size_t comma = line.find(',');
        fields.push_back(line.substr(0, comma));
        if (comma == std::string_view::npos) {
            return fields;
        }
        line.remove_prefix(comma + 1);
    }
}

bool is_column_name(std::string_view field) {
    return !field.empty() &&
           field.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

bool is_number(std::string_view field) {
    constexpr size_t kLongest = 64;
    if (field.empty() || field.size() > kLongest ||
        field.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
        return false;
    }
    const std::string text(field);
    char *end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    return *end == '\0' && std::isfinite(number);
}

/// Whatever file this is, the message stays a sentence on one line.
std::string shown(std::string_view field) {
    constexpr size_t kShown = 20;
    std::string text(field.substr(0, kShown));
    std::replace_if(
        text.begin(), text.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    return text;
}

class Checker {
public:
    Checker(std::string_view text, std::string_view name) : text_(text), rest_(text), name_(name) {}

    Result<std::string_view> check() {
        if (!text_.starts_with(kSignature)) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} is not a CSV file of sluice run: it {}", name_,
                                    text_.empty()
                                        ? "is empty"
                                        : fmt::format("does not begin with \"{}VERSION\"", kSignature)));
        }
        for (size_t end = rest_.find('\n'); end != std::string_view::npos; end = rest_.find('\n')) {
            ++line_;
            const std::string_view line = rest_.substr(0, end);
            rest_.remove_prefix(end + 1);
            if (line.empty() || line.front() == '#') {
                continue;
            }
            if (const Status good = columns_.empty() ? check_names(line) : check_row(line); !good) {
                return fail(good.error());
            }
        }
        if (rows_ == 0) {
            return fail(ErrorCode::InvalidFormat,
                        fmt::format("{} has no rows: the run ended before anything was computed", name_));
        }
        return text_.substr(0, text_.size() - rest_.size());
    }

private:
    [[nodiscard]] Status bad(std::string_view why) const {
        return fail(ErrorCode::InvalidFormat, fmt::format("{}, line {}: {}", name_, line_, why));
    }

    Status check_names(std::string_view line) {
        columns_ = fields_of(line);
        for (const std::string_view name : columns_) {
            if (!is_column_name(name) || std::count(columns_.begin(), columns_.end(), name) > 1) {
                return bad(fmt::format("'{}' cannot be the name of a column", shown(name)));
            }
        }
        for (const char *needed : {"phase", "batch_tokens", "wall_ms"}) {
            if (std::find(columns_.begin(), columns_.end(), needed) == columns_.end()) {
                return bad(fmt::format("there is no column '{}'", needed));
            }
        }
        return {};
    }

    Status check_row(std::string_view line) {
        const std::vector<std::string_view> fields = fields_of(line);
        if (fields.size() != columns_.size()) {
            return bad(fmt::format("{} fields, not the {} of the columns", fields.size(), columns_.size()));
        }
        for (size_t i = 0; i < fields.size(); ++i) {
            const std::string_view field = fields[i];
            if (columns_[i] == "phase") {
                if (field != "prefill" && field != "decode") {
                    return bad(fmt::format("the phase is prefill or decode, not '{}'", shown(field)));
                }
            } else if (!field.empty() && !is_number(field)) {
                return bad(fmt::format("'{}' is not a number for {}", shown(field), columns_[i]));
            }
        }
        ++rows_;
        return {};
    }

    const std::string_view text_;
    std::string_view rest_;
    const std::string_view name_;
    size_t line_ = 0;
    std::vector<std::string_view> columns_;
    size_t rows_ = 0;
};

} // namespace

Result<std::string_view> check_run_csv(std::string_view text, std::string_view name) {
    return Checker(text, name).check();
}

} // namespace sluice::cli
