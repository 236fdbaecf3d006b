#include "platform/mount_table.h"

#include "base/text.h"

#include <charconv>

namespace sluice::platform {
namespace {

/// Undoes mountinfo's octal escapes of blanks and backslashes.
std::string unescape(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        if (text[i] == '\\' && i + 3 < text.size() &&
            std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
            plain += static_cast<char>(value);
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

} // namespace

std::vector<MountEntry> parse_mounts(std::string_view mountinfo) {
    std::vector<MountEntry> mounts;
    for (const std::string_view line : sluice::split(mountinfo, '\n')) {
        const size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) {
            continue;
        }
        const auto head = sluice::split(line.substr(0, dash), ' '); // id parent device root directory options
        const auto tail = sluice::split(line.substr(dash + 3), ' '); // type source options
        if (head.size() < 5 || tail.size() < 3) {
            continue;
        }
        mounts.push_back({.directory = unescape(head[4]),
                          .root = unescape(head[3]),
                          .type = std::string(tail[0]),
                          .options = std::string(tail[2])});
    }
    return mounts;
}

} // namespace sluice::platform
