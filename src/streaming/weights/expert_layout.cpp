#include "streaming/weights/expert_layout.h"

#include "streaming/weights/placement.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "ggml-cpu/repack.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <random>
#include <utility>

namespace sluice::streaming {

namespace {

/// A kernel of ggml's for one activation row, and what it multiplies.
struct KnownKernel {
    ggml_type weight;
    ggml_type activation;
    void (*run)(int, float *, size_t, const void *, const void *, int, int);
};

// Which of them goes with the layout that a CPU gets is ggml's secret: a trial tells.
constexpr KnownKernel kKnownKernels[] = {
    {GGML_TYPE_Q1_0, GGML_TYPE_Q8_0, ggml_gemv_q1_0_4x4_q8_0},
    {GGML_TYPE_Q1_0, GGML_TYPE_Q8_0, ggml_gemv_q1_0_4x8_q8_0},
    {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, ggml_gemv_q4_0_4x4_q8_0},
    {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, ggml_gemv_q4_0_4x8_q8_0},
    {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, ggml_gemv_q4_0_8x8_q8_0},
    {GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, ggml_gemv_q8_0_4x4_q8_0},
    {GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, ggml_gemv_q8_0_4x8_q8_0},
    {GGML_TYPE_Q2_K, GGML_TYPE_Q8_K, ggml_gemv_q2_K_8x8_q8_K},
    {GGML_TYPE_Q4_K, GGML_TYPE_Q8_K, ggml_gemv_q4_K_8x4_q8_K},
    {GGML_TYPE_Q4_K, GGML_TYPE_Q8_K, ggml_gemv_q4_K_8x8_q8_K},
    {GGML_TYPE_Q5_K, GGML_TYPE_Q8_K, ggml_gemv_q5_K_8x4_q8_K},
    {GGML_TYPE_Q5_K, GGML_TYPE_Q8_K, ggml_gemv_q5_K_8x8_q8_K},
    {GGML_TYPE_Q6_K, GGML_TYPE_Q8_K, ggml_gemv_q6_K_8x4_q8_K},
    {GGML_TYPE_Q6_K, GGML_TYPE_Q8_K, ggml_gemv_q6_K_8x8_q8_K},
    {GGML_TYPE_IQ4_NL, GGML_TYPE_Q8_0, ggml_gemv_iq4_nl_4x4_q8_0},
    {GGML_TYPE_IQ4_NL, GGML_TYPE_Q8_0, ggml_gemv_iq4_nl_8x8_q8_0},
    {GGML_TYPE_MXFP4, GGML_TYPE_Q8_0, ggml_gemv_mxfp4_4x4_q8_0},
    {GGML_TYPE_MXFP4, GGML_TYPE_Q8_0, ggml_gemv_mxfp4_8x8_q8_0},
};

constexpr int64_t kTrialExperts = 2;

struct ContextDeleter {
    void operator()(ggml_context *context) const { ggml_free(context); }
};

using ContextPointer = std::unique_ptr<ggml_context, ContextDeleter>;
using OwnedBuffer = std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)>;

/// For a matmul's tensors and a graph, without their data.
ContextPointer make_context() {
    constexpr size_t kTensors = 8;
    ContextPointer context(ggml_init({.mem_size = ggml_tensor_overhead() * kTensors + ggml_graph_overhead(),
                                      .mem_buffer = nullptr,
                                      .no_alloc = true}));
    if (context == nullptr) {
        throw std::bad_alloc();
    }
    return context;
}

/// The buffer type in which stock would multiply `bank`, in a layout that takes as much memory; null: none.
ggml_backend_buffer_type_t type_for(const ggml_tensor *bank) {
    const ContextPointer context = make_context();
    const OwnedBuffer nothing(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 0),
                              ggml_backend_buffer_free);
    ggml_tensor *weight =
        ggml_new_tensor_3d(context.get(), bank->type, bank->ne[0], bank->ne[1], bank->ne[2]);
    weight->buffer = nothing.get();
    const ggml_tensor *question = ggml_mul_mat_id(
        context.get(), weight, ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, bank->ne[0], 1, 1),
        ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, 1));
    ggml_backend_buffer_type_t type = repacking_type(question);
    return type != nullptr && ggml_backend_buft_get_alloc_size(type, bank) == ggml_nbytes(bank) ? type
                                                                                                : nullptr;
}

/// A small expert matmul, as stock computes it with weights in `type`'s layout.
class Trial {
public:
    Trial(ggml_type weight_type, int64_t elements, int64_t rows);

    /// Rows of the weights, expert by expert, as in a file.
    [[nodiscard]] const std::vector<std::byte> &weights() const { return weights_; }
    /// One row for each expert.
    [[nodiscard]] const std::vector<float> &activations() const { return activations_; }

    /// What stock multiplies each expert by its activation to, and in which layout (ggml_tensor::extra).
    std::vector<float> stock(ggml_backend_buffer_type_t type, const void *&layout);

private:
    const ggml_type type_;
    const int64_t elements_;
    const int64_t rows_;
    std::vector<float> activations_;
    std::vector<std::byte> weights_;
    ContextPointer context_;
};

Trial::Trial(ggml_type weight_type, int64_t elements, int64_t rows)
    : type_(weight_type), elements_(elements), rows_(rows) {
    std::minstd_rand random(1);
    const auto draw = [&random] {
        return static_cast<float>(random()) / static_cast<float>(std::minstd_rand::max()) * 2 - 1;
    };
    std::vector<float> values(static_cast<size_t>(elements * rows * kTrialExperts));
    std::generate(values.begin(), values.end(), draw);
    activations_.resize(static_cast<size_t>(elements * kTrialExperts));
    std::generate(activations_.begin(), activations_.end(), draw);
    weights_.resize(ggml_row_size(weight_type, elements) * static_cast<size_t>(rows * kTrialExperts));
    ggml_quantize_chunk(weight_type, values.data(), weights_.data(), 0, rows * kTrialExperts, elements,
                        nullptr);
    context_ = make_context();
}

std::vector<float> Trial::stock(ggml_backend_buffer_type_t type, const void *&layout) {
    ggml_context *context = context_.get();
    ggml_tensor *weight = ggml_new_tensor_3d(context, type_, elements_, rows_, kTrialExperts);
    ggml_tensor *activations = ggml_new_tensor_3d(context, GGML_TYPE_F32, elements_, 1, kTrialExperts);
    ggml_tensor *ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 1, kTrialExperts);
    ggml_tensor *product = ggml_mul_mat_id(context, weight, activations, ids);
    const OwnedBuffer buffer(
        ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, weight)),
        ggml_backend_buffer_free);
    if (buffer == nullptr) {
        throw std::bad_alloc();
    }
    ggml_backend_tensor_alloc(buffer.get(), weight, ggml_backend_buffer_get_base(buffer.get()));
    ggml_backend_tensor_set(weight, weights_.data(), 0, weights_.size());
    layout = weight->extra;

    std::vector<int32_t> chosen(kTrialExperts);
    std::iota(chosen.begin(), chosen.end(), 0);
    std::vector<float> output(static_cast<size_t>(rows_ * kTrialExperts));
    activations->data = activations_.data();
    ids->data = chosen.data();
    product->data = output.data();
    ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, product);
    const std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)> cpu(ggml_backend_cpu_init(),
                                                                          ggml_backend_free);
    if (cpu == nullptr) {
        throw std::bad_alloc();
    }
    ggml_backend_cpu_set_n_threads(cpu.get(), 1);
    return ggml_backend_graph_compute(cpu.get(), graph) == GGML_STATUS_SUCCESS ? output
                                                                               : std::vector<float>();
}

} // namespace

ExpertLayout::ExpertLayout(const ggml_tensor *bank, BufferPointer buffer) : buffer_(std::move(buffer)) {
    rows_ = *bank;
    rows_.data = nullptr;
    rows_.extra = nullptr;
    rows_.buffer = buffer_.get();
    rows_.view_src = nullptr;
    // The whole bank's shape decides about the layout; what is arranged at a time is a few of its rows.
    ggml_backend_buffer_init_tensor(buffer_.get(), &rows_);
    rows_.ne[2] = 1;
}

std::unique_ptr<ExpertLayout> ExpertLayout::find(const ggml_tensor *bank, std::string &why) {
    ggml_backend_buffer_type_t type = type_for(bank);
    const char *name = ggml_type_name(bank->type);
    if (type == nullptr) {
        why = fmt::format("ggml has no other layout for {} on this processor that a slot could have", name);
        return nullptr;
    }
    if (ggml_quantize_requires_imatrix(bank->type)) {
        why = fmt::format("{} has a layout in ggml, but no weights can be made up to try it", name);
        return nullptr;
    }
    // A few rows are enough for a trial, but as many over as the bank has: ggml asks what divides them.
    constexpr int64_t kTrialRows = 64;
    Trial trial(bank->type, bank->ne[0], kTrialRows + bank->ne[1] % kTrialRows);
    BufferPointer buffer(ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alignment(type)));
    if (buffer == nullptr) {
        throw std::bad_alloc();
    }
    std::unique_ptr<ExpertLayout> layout(new ExpertLayout(bank, std::move(buffer)));
    const void *layout_tried = nullptr;
    const std::vector<float> expected = trial.stock(type, layout_tried);
    if (layout->rows_.extra == nullptr || layout_tried != layout->rows_.extra || expected.empty()) {
        why = fmt::format("{} has a layout in ggml that could not be tried", name);
        return nullptr;
    }
    for (const KnownKernel &known : kKnownKernels) {
        layout->kernel_ = known.run;
        if (known.weight == bank->type &&
            known.activation == ggml_get_type_traits_cpu(bank->type)->vec_dot_type &&
            layout->gives(expected, trial.activations(), trial.weights())) {
            return layout;
        }
    }
    why = fmt::format("{} has a layout in ggml whose kernel is not known here", name);
    return nullptr;
}

/// Whether `weights`, experts one after the other as in a file, each times its own of the `activations`, are
/// `expected` to the byte.
bool ExpertLayout::gives(std::span<const float> expected, std::span<const float> activations,
                         std::vector<std::byte> weights) const {
    const auto elements = static_cast<size_t>(rows_.ne[0]);
    const size_t experts = activations.size() / elements;
    const size_t slice = weights.size() / experts;
    const size_t rows = expected.size() / experts;
    const ggml_type type = ggml_get_type_traits_cpu(rows_.type)->vec_dot_type;
    std::vector<std::byte> converted(ggml_row_size(type, rows_.ne[0]));
    std::vector<std::byte> spare;
    std::vector<float> got(expected.size());
    for (size_t expert = 0; expert < experts; ++expert) {
        // Piece by piece, as slices are: a layout of more than a group of rows fails the trial.
        for (size_t at = 0; at < slice; at += kGroupRows * slice / rows) {
            const size_t piece = std::min(kGroupRows * slice / rows, slice - at);
            arrange(std::span(weights).subspan(expert * slice + at, piece), spare);
        }
        ggml_get_type_traits_cpu(type)->from_float(activations.data() + expert * elements, converted.data(),
                                                   rows_.ne[0]);
        multiply(weights.data() + expert * slice, converted.data(), got.data() + expert * rows,
                 static_cast<int64_t>(rows));
    }
    return std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0;
}

void ExpertLayout::arrange(std::span<std::byte> rows, std::vector<std::byte> &spare) const {
    if (spare.size() < rows.size()) {
        spare.resize(rows.size());
    }
    std::memcpy(spare.data(), rows.data(), rows.size());
    ggml_tensor target = rows_;
    target.ne[1] = static_cast<int64_t>(rows.size() / target.nb[1]);
    target.nb[2] = target.nb[3] = rows.size();
    target.data = rows.data();
    ggml_backend_tensor_set(&target, spare.data(), 0, rows.size());
}

void ExpertLayout::multiply(const std::byte *rows, const std::byte *activation, float *output,
                            int64_t count) const {
    kernel_(static_cast<int>(rows_.ne[0]), output, static_cast<size_t>(count), rows, activation, 1,
            static_cast<int>(count));
}

} // namespace sluice::streaming
