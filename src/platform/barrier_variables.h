// The user's variables that say how long compute threads spin at barriers, as OpenMP runtimes read them.
// Header only: a program's first constructor reads them, too, and links nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::platform {

inline constexpr uint64_t kSpinForEver = UINT64_MAX;

/// `text` without blanks around it.
constexpr std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\n\v\f\r";
    const size_t first = text.find_first_not_of(kBlanks);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// Whether two words are the same but for capitals.
constexpr bool same_word(std::string_view text, std::string_view small) {
    const auto small_letter = [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    };
    if (text.size() != small.size()) {
        return false;
    }
    for (size_t i = 0; i < text.size(); ++i) {
        if (small_letter(text[i]) != small[i]) {
            return false;
        }
    }
    return true;
}

/// Turns that GOMP_SPINCOUNT asks for: a number, perhaps with k, m, g or t for thousands of it, or
/// "infinite". Empty if it is none of these.
constexpr std::optional<uint64_t> spin_count(std::string_view value) {
    std::string_view text = trimmed(value);
    if (same_word(text, "infinite") || same_word(text, "infinity")) {
        return kSpinForEver;
    }
    uint64_t scale = 1;
    constexpr std::string_view kScales = "kKmMgGtT";
    if (const size_t at = text.empty() ? std::string_view::npos : kScales.find(text.back());
        at != std::string_view::npos) {
        for (size_t i = 0; i <= at / 2; ++i) {
            scale *= 1000;
        }
        text = trimmed(text.substr(0, text.size() - 1));
    }
    if (text.empty()) {
        return std::nullopt;
    }
    uint64_t count = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9') {
            return std::nullopt;
        }
        if (count > kSpinForEver / 10 - 9) {
            return kSpinForEver;
        }
        count = 10 * count + static_cast<uint64_t>(digit - '0');
    }
    return count > kSpinForEver / scale ? kSpinForEver : count * scale;
}

/// Whether OMP_WAIT_POLICY asks for waiting threads to spin (true) or to sleep (false). Empty if it says
/// neither.
constexpr std::optional<bool> spins_by_policy(std::string_view value) {
    const std::string_view text = trimmed(value);
    if (same_word(text, "active")) {
        return true;
    }
    return same_word(text, "passive") ? std::optional(false) : std::nullopt;
}

} // namespace sluice::platform
