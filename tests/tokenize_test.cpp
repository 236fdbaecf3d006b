// Text to tokens, of models whose files ask for something odd.

#include "support/altered_model.h"
#include "support/cli.h"
#include "support/temp_file.h"

#include "session/model.h"
#include "session/session.h"

#include <string>
#include <vector>

namespace sluice::test {
namespace {

std::vector<Token> tokens_of(const std::string &path, const std::string &text, bool parse_special) {
    ModelOptions options;
    options.path = path;
    options.stream = StreamMode::Force;
    options.cache_bytes = size_t{8} << 20U;
    auto model = Model::load(options);
    EXPECT_TRUE(model);
    auto session = Session::create(*model, {.context_tokens = 64, .threads = 1});
    EXPECT_TRUE(session);
    auto tokens = session->tokenize(text, true, parse_special);
    EXPECT_TRUE(tokens);
    return *tokens;
}

TEST(Tokenize, PutsNoEndOfTextBehindAPromptThoughTheFileAsksForIt) {
    const ScratchDir dir;
    AlteredModel model(embedded());
    model.set_true("tokenizer.ggml.add_eos_token");
    model.write(dir / "eos.gguf");
    EXPECT_EQ(tokens_of(dir / "eos.gguf", "Once upon a time", false),
              tokens_of(embedded(), "Once upon a time", false));
}

TEST(Tokenize, ReadsControlTokensWhereAsked) {
    const ScratchDir dir;
    AlteredModel model(embedded());
    model.make_control_tokens({"<|im_start|>", "<|im_end|>"});
    model.write(dir / "control.gguf");
    const std::string text = "<|im_start|><|im_end|><|im_start|><|im_end|>";
    EXPECT_EQ(tokens_of(dir / "control.gguf", text, true).size(), 5U) << "and the one that begins every text";
    EXPECT_GT(tokens_of(dir / "control.gguf", text, false).size(), 5U);
}

} // namespace
} // namespace sluice::test
