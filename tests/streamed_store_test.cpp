// Who hides the names of tensors while a model loads, who puts them back, and when: on every way out of a
// load.

#include "planning/paper_model.h"
#include "session/llama_log.h"
#include "session/model_state.h"
#include "streaming/device/streaming_device.h"
#include "streaming/weights/hidden_names.h"
#include "streaming/weights/load_target.h"

#include "ggml-alloc.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace sluice::streaming {
namespace {

struct Free {
    void operator()(ggml_context *context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer *buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(llama_model *model) const { llama_model_free(model); }
};
using Context = std::unique_ptr<ggml_context, Free>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Free>;

Context make_context() {
    return Context(ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = true}));
}

// -- names alone

class HiddenNamesTest : public testing::Test {
protected:
    HiddenNamesTest() {
        tensor_->data = &memory_;
        ggml_set_name(tensor_, "weight");
    }
    void hide() {
        names_.hide(tensor_, [](const std::string &) { return false; });
    }

    Context context_ = make_context();
    ggml_tensor *tensor_ = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 1);
    float memory_ = 0;
    HiddenNames names_;
};

TEST_F(HiddenNamesTest, AreHiddenUntilTheyArePutBack) {
    hide();
    EXPECT_STRNE(tensor_->name, "weight");
    EXPECT_EQ(names_.count(), 1U);
    names_.restore();
    EXPECT_STREQ(tensor_->name, "weight");
    EXPECT_EQ(names_.count(), 0U);
}

TEST_F(HiddenNamesTest, ArePutBackOnce) {
    hide();
    names_.restore();
    ggml_set_name(tensor_, "renamed since");
    names_.restore();
    EXPECT_STREQ(tensor_->name, "renamed since");
}

TEST_F(HiddenNamesTest, NeverBecomeAnotherTensorsName) {
    std::string asked;
    names_.hide(tensor_, [&asked](const std::string &name) {
        const bool is_first = asked.empty();
        asked = name;
        return is_first;
    });
    EXPECT_EQ(tensor_->name, asked) << "the second one that was tried";
}

TEST_F(HiddenNamesTest, OfTensorsWhoseMemoryGoesAreNeverWrittenTo) {
    hide();
    const std::string hidden = tensor_->name;
    names_.forget(&memory_ + 1, sizeof(memory_));
    EXPECT_EQ(names_.count(), 1U) << "somebody else's memory";
    names_.forget(&memory_, sizeof(memory_));
    EXPECT_EQ(names_.count(), 0U);
    names_.restore();
    EXPECT_EQ(tensor_->name, hidden);
}

// -- a store, given a bank as the loader gives it

class StoreNames : public testing::Test {
protected:
    void SetUp() override {
        register_device();
        auto directory = gguf::GgufDirectory::open(path_, false, platform::system_files());
        ASSERT_TRUE(directory) << directory.error().message;
        directory_ = std::move(*directory);
        const auto &tensors = directory_->tensors();
        const auto bank = std::find_if(tensors.begin(), tensors.end(),
                                       [](const auto &entry) { return entry.shape[2] > 1; });
        ASSERT_NE(bank, tensors.end());
        name_ = bank->name;
        bank_ = ggml_new_tensor_3d(context_.get(), static_cast<ggml_type>(bank->type), bank->shape[0],
                                   bank->shape[1], bank->shape[2]);
        ggml_set_name(bank_, name_.c_str());
    }

    void make_store(bool dry) {
        auto store = StreamedStore::create(*directory_, {.access = platform::Access::Buffered, .dry = dry});
        ASSERT_TRUE(store) << store.error().message;
        store_ = std::move(*store);
        scope_ = std::make_unique<LoadScope>(store_.get());
        // The loader's question, on the weight itself; an empty buffer of our type is behind it.
        const Context asking = make_context();
        ggml_tensor *rows = ggml_new_tensor_3d(asking.get(), GGML_TYPE_F32, bank_->ne[0], 1, 1);
        ggml_tensor *ids = ggml_new_tensor_2d(asking.get(), GGML_TYPE_I32, 1, 1);
        empty_.reset(ggml_backend_buft_alloc_buffer(streamed_buffer_type(), 0));
        bank_->buffer = empty_.get();
        ASSERT_TRUE(store_->placement.wants(ggml_mul_mat_id(asking.get(), bank_, rows, ids)));
    }

    void allocate() {
        bank_->buffer = nullptr;
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), streamed_buffer_type()));
        ASSERT_NE(buffer_, nullptr);
        ASSERT_STRNE(bank_->name, name_.c_str()) << "or the loader reads what is to be streamed";
    }

    std::string path_ = std::string(SLUICE_MODELS) + "/tiny-moe-stories-54m-Q4_K_M.gguf";
    std::unique_ptr<gguf::GgufDirectory> directory_;
    std::unique_ptr<StreamedStore> store_;
    Context context_ = make_context();
    ggml_tensor *bank_ = nullptr;
    std::string name_;
    Buffer empty_;
    Buffer buffer_;
    std::unique_ptr<LoadScope> scope_;
};

TEST_F(StoreNames, ComeBackWhereALoadEnds) {
    make_store(false);
    allocate();
    EXPECT_EQ(store_->hidden_names(), 1U);
    scope_.reset();
    EXPECT_EQ(bank_->name, name_);
    EXPECT_EQ(store_->hidden_names(), 0U);
    EXPECT_NE(store_->find(bank_), nullptr);
}

TEST_F(StoreNames, OfAModelThatIsGoneBeforeItsLoadEndsStayAway) {
    make_store(false);
    allocate();
    buffer_.reset();
    EXPECT_EQ(store_->hidden_names(), 0U);
    ggml_set_name(bank_, "somebody else's memory by now");
    scope_.reset();
    EXPECT_STREQ(bank_->name, "somebody else's memory by now");
    EXPECT_EQ(store_->find(bank_), nullptr);
}

TEST_F(StoreNames, AreNeverWrittenByADryStore) {
    make_store(true);
    ASSERT_NE(store_->find(bank_), nullptr);
    EXPECT_EQ(store_->hidden_names(), 0U);
    EXPECT_EQ(bank_->name, name_);
    ggml_set_name(bank_, "somebody else's memory by now");
    scope_.reset();
    EXPECT_STREQ(bank_->name, "somebody else's memory by now");
    EXPECT_EQ(store_->find(bank_), nullptr)
        << "what was met in the model is not known by its address any more";
    EXPECT_EQ(store_->banks().size(), 1U) << "what was learnt stays";
}

// -- whole loads by llama.cpp

struct Progress {
    float stop_at = 2;
    const StreamedStore *store = nullptr;
    size_t most_hidden = 0;
};

bool go_on(float done, void *data) {
    Progress &progress = *static_cast<Progress *>(data);
    progress.most_hidden = std::max(progress.most_hidden, progress.store->hidden_names());
    return done < progress.stop_at;
}

/// What llama.cpp makes of the model with its experts streamed, and how many names were hidden at most.
std::unique_ptr<llama_model, Free> load(const std::string &path, StreamedStore &store, Progress &progress) {
    session::capture_llama_log();
    session::init_llama();
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    params.progress_callback = go_on;
    params.progress_callback_user_data = &progress;
    progress.store = &store;
    return std::unique_ptr<llama_model, Free>(llama_model_load_from_file(path.c_str(), params));
}

TEST_F(StoreNames, NoneIsHiddenOnceALoadWasCancelled) {
    const auto store = *StreamedStore::create(*directory_, {.access = platform::Access::Buffered});
    const LoadScope scope(store.get());
    Progress progress{.stop_at = 0.01F}; // of the whole file, most of which is never read
    EXPECT_EQ(load(path_, *store, progress), nullptr);
    EXPECT_GT(progress.most_hidden, 1U);
    EXPECT_EQ(store->hidden_names(), 0U) << "names of tensors that are gone";
}

TEST_F(StoreNames, NoneIsHiddenOnceAModelWasFreedWithinItsScope) {
    const auto store = *StreamedStore::create(*directory_, {.access = platform::Access::Buffered});
    const LoadScope scope(store.get());
    Progress progress;
    auto model = load(path_, *store, progress);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(store->hidden_names(), progress.most_hidden);
    model.reset();
    EXPECT_EQ(store->hidden_names(), 0U);
}

TEST_F(StoreNames, AModelOnPaperHidesNone) {
    const ModelOptions options{.path = path_, .stream = StreamMode::Force};
    const auto paper = planning::PaperModel::make(options, {.context_tokens = 64}, true, *directory_);
    ASSERT_TRUE(paper) << paper.error().message;
    ASSERT_TRUE((*paper)->store()->has_banks());
    EXPECT_EQ((*paper)->store()->hidden_names(), 0U);
}

} // namespace
} // namespace sluice::streaming
