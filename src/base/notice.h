// What the library has to say while it works, a sentence at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sluice {

/// Told each sentence, without a newline, on any thread, one at a time; must neither throw nor call back into
/// Sluice.
using NoticeSink = std::function<void(std::string_view)>;

/// Who is told; empty: standard error, each sentence behind "sluice: ". Thread-safe.
void set_notice_sink(NoticeSink sink);

/// Tells. Thread-safe, does not throw.
void notice(std::string_view sentence) noexcept;

} // namespace sluice
