// A model whose weights are damaged computes NaN somewhere. That is an error, from whatever weight, and never
// a text.

#include "support/altered_model.h"
#include "support/cli.h"
#include "support/gate.h"
#include "support/temp_file.h"

#include "session/model.h"
#include "session/session.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using testing::HasSubstr;

std::string damaged(const ScratchDir &dir, const std::string &model, const std::string &tensor,
                    std::optional<int64_t> row = {}) {
    AlteredModel altered(model);
    altered.spoil(tensor, row);
    altered.write(dir / "damaged.gguf");
    return dir / "damaged.gguf";
}

Result<Model> opened(const std::string &path, StreamMode stream) {
    ModelOptions options;
    options.path = path;
    options.stream = stream;
    options.cache_bytes = size_t{8} << 20U;
    return Model::load(options);
}

void expect_error(const std::string &path, StreamMode stream) {
    auto model = opened(path, stream);
    ASSERT_TRUE(model) << model.error().message;
    auto session = Session::create(*model, {.context_tokens = 64, .threads = 1});
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<Token> prompt = {1, 2, 3};
    const Status decoded = session->decode(prompt, {});
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::InvalidFormat);
    EXPECT_THAT(decoded.error().message, HasSubstr("no number (NaN)"));
    EXPECT_TRUE(session->logits().empty());
}

TEST(NotANumber, IsAnErrorFromWhateverWeight) {
    const ScratchDir dir;
    const std::string model = arch_model("qwen3moe-moe");
    for (const std::string &tensor : AlteredModel(model).tensors()) {
        if (!tensor.ends_with(".weight")) {
            continue; // scales that a graph of these types does not use
        }
        for (const StreamMode stream : {StreamMode::Force, StreamMode::Never}) {
            SCOPED_TRACE(tensor + (stream == StreamMode::Force ? ", streamed" : ", in memory"));
            expect_error(damaged(dir, model, tensor), stream);
        }
    }
}

TEST(NotANumber, IsAnErrorWhereQuantisedActivationsMakeZerosOfIt) {
    const ScratchDir dir;
    for (const char *tensor :
         {"token_embd.weight", "blk.3.ffn_gate_inp.weight", "output_norm.weight", "output.weight"}) {
        for (const StreamMode stream : {StreamMode::Force, StreamMode::Never}) {
            SCOPED_TRACE(tensor);
            expect_error(damaged(dir, embedded(), tensor), stream);
        }
    }
}

TEST(NotANumber, OfOneTokenDoesNotSpoilWhatFollows) {
    const ScratchDir dir;
    constexpr Token kBad = 7;
    auto model = opened(damaged(dir, embedded(), "token_embd.weight", kBad), StreamMode::Force);
    ASSERT_TRUE(model) << model.error().message;
    auto session = Session::create(*model, {.context_tokens = 64, .threads = 1});
    auto alone = Session::create(*model, {.context_tokens = 64, .threads = 1});
    ASSERT_TRUE(session && alone);
    const std::vector<Token> good = {1, 2, 3};
    const std::vector<Token> bad = {1, 3, kBad};
    EXPECT_FALSE(session->decode(bad, {}));
    ASSERT_TRUE(session->decode(good, {}));
    ASSERT_TRUE(alone->decode(good, {}));
    const auto ours = session->logits();
    const auto theirs = alone->logits();
    EXPECT_TRUE(std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end()));
}

TEST(NotANumber, EndsARunWithASentence) {
    const ScratchDir dir;
    const ChildResult result =
        sluice({"run", "-m", damaged(dir, embedded(), "blk.3.ffn_gate_inp.weight"), "-p", "Once upon a time",
                "-n", "8", "--moe-stream", "--cache-mb", "8"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("no number (NaN)"));
}

} // namespace
} // namespace sluice::test
