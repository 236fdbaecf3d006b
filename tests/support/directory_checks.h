// Opening a GGUF directory in tests: it works, or it is refused for the right reason.
#pragma once

#include "ggml.h"
#include "gguf/gguf_directory.h"
#include "platform/file.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace sluice::test {

/// gguf logs what it refuses; these tests refuse a lot.
struct Silence {
    Silence() {
        ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    }
};
inline const Silence silence;

/// The directory of `path`; records a failure and returns null if it can't be opened.
inline std::unique_ptr<gguf::GgufDirectory> opened(const std::string &path) {
    auto directory = gguf::GgufDirectory::open(path, false, platform::system_files());
    EXPECT_TRUE(directory) << directory.error().message;
    return directory ? std::move(*directory) : nullptr;
}

/// Expects that `path` cannot be opened; the message must hold `part` and the path of the file at fault.
inline void expect_refused(const std::string &path, ErrorCode code, const std::string &part) {
    const auto directory = gguf::GgufDirectory::open(path, false, platform::system_files());
    ASSERT_FALSE(directory) << part;
    EXPECT_EQ(directory.error().code, code) << directory.error().message;
    EXPECT_NE(directory.error().message.find(part), std::string::npos) << directory.error().message;
}

} // namespace sluice::test
