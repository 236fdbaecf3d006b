#include "tools/make_model_weights.h"

#include "ggml.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>

namespace sluice::tools {

static_assert(std::endian::native == std::endian::little, "GGUF files are written as they are in memory");

namespace {

using Scale = BlockLayout::Scale;
using Codes = BlockLayout::Codes;

// `spread` was measured on random blocks with ggml's own dequantisation; `minimum` centres the values.
constexpr BlockLayout block_layouts[] = {
    {GGML_TYPE_Q1_0, 1.0},
    {GGML_TYPE_Q2_0, 1.225},
    {GGML_TYPE_Q4_0, 4.64},
    {GGML_TYPE_Q4_1, 4.61, 0, -7.5},
    {GGML_TYPE_Q5_0, 9.24},
    {GGML_TYPE_Q5_1, 9.23, 0, -15.5},
    {GGML_TYPE_Q8_0, 73.9},
    {GGML_TYPE_Q2_K, 13.9, 80, 1.5},
    {GGML_TYPE_Q3_K, 43.4, 108},
    {GGML_TYPE_Q4_K, 258, 0, 7.5},
    {GGML_TYPE_Q5_K, 527, 0, 15.5},
    {GGML_TYPE_Q6_K, 1366, 208},
    {GGML_TYPE_IQ1_S, 7.2},
    {GGML_TYPE_IQ1_M, 7.2, 48, 0, Scale::Nibbles},
    {GGML_TYPE_IQ2_XXS, 53.4},
    {GGML_TYPE_IQ2_XS, 55.9},
    {GGML_TYPE_IQ2_S, 56.4},
    {GGML_TYPE_IQ3_XXS, 142.4},
    {GGML_TYPE_IQ3_S, 140.2},
    {GGML_TYPE_IQ4_NL, 67.5},
    {GGML_TYPE_IQ4_XS, 1245},
    {GGML_TYPE_TQ1_0, 0.82, 52, 0, Scale::Half, Codes::Trits},
    {GGML_TYPE_TQ2_0, 0.707, 64, 0, Scale::Half, Codes::Pairs},
    {GGML_TYPE_MXFP4, 5.85, 0, 0, Scale::E8m0},
    {GGML_TYPE_NVFP4, 5.85, 0, 0, Scale::Ue4m3},
};

constexpr int float_types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

const BlockLayout *find_layout(int type) {
    const auto *at = std::find_if(std::begin(block_layouts), std::end(block_layouts),
                                  [type](const BlockLayout &layout) { return layout.type == type; });
    return at == std::end(block_layouts) ? nullptr : at;
}

const char *type_name(int type) {
    return ggml_type_name(static_cast<ggml_type>(type));
}

uint64_t mix(uint64_t value) { // the finaliser of splitmix64
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

uint64_t hash(std::string_view text) { // FNV-1a
    uint64_t value = 0xcbf29ce484222325U;
    for (const unsigned char c : text) {
        value = (value ^ c) * 0x100000001b3U;
    }
    return value;
}

/// The unsigned 8-bit float (4 exponent bits, bias 7, 3 of mantissa) at or just below `value`.
uint8_t to_ue4m3(double value) {
    uint8_t code = 1;
    const auto decode = [](uint8_t bits) {
        const int exponent = bits >> 3;
        const int mantissa = bits & 7;
        return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    };
    while (code < 0x7e && decode(static_cast<uint8_t>(code + 1)) <= value) {
        ++code;
    }
    return code;
}

/// The power of two at or just below `value`, as a biased 8-bit exponent.
uint8_t to_e8m0(double value) {
    return static_cast<uint8_t>(std::clamp(std::ilogb(value) + 127, 1, 254));
}

bool same_name(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

} // namespace

std::optional<int> weight_type(std::string_view name) {
    for (const int type : float_types) {
        if (same_name(name, type_name(type))) {
            return type;
        }
    }
    for (const BlockLayout &layout : block_layouts) {
        if (same_name(name, type_name(layout.type))) {
            return layout.type;
        }
    }
    return std::nullopt;
}

std::string weight_type_names() {
    std::string names;
    const auto add = [&names](int type) {
        names += names.empty() ? "" : ", ";
        names += type_name(type);
    };
    std::for_each(std::begin(float_types), std::end(float_types), add);
    for (const BlockLayout &layout : block_layouts) {
        add(layout.type);
    }
    return names;
}

WeightStream::WeightStream(int type, const Fill &fill, std::string_view name, uint64_t seed)
    : type_(type), layout_(find_layout(type)), granule_(ggml_type_size(static_cast<ggml_type>(type))),
      state_(mix(seed) ^ hash(name)) {
    if (layout_ != nullptr) {
        prepare_scales(fill);
    } else {
        mean_ = fill.mean;
        step_ = fill.spread * (1.7320508075688772 / 32768); // an even spread of +-sqrt(3) has deviation 1
        granule_ *= 4;                                      // one draw serves four values
    }
}

uint64_t WeightStream::draw() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix(state_);
}

/// Scales differ a little from block to block, as they do in real models.
void WeightStream::prepare_scales(const Fill &fill) {
    for (size_t i = 0; i < scale_count; ++i) {
        const double jitter = static_cast<double>(24 + i) / 32; // 0.75 to 1.22, all exact
        const double scale = fill.spread / layout_->spread * jitter;
        switch (layout_->scale) {
        case Scale::E8m0:
            scales_[i] = to_e8m0(2 * scale); // ggml's table of these codes holds doubled values
            break;
        case Scale::Ue4m3:
            scales_[i] = to_ue4m3(2 * scale);
            break;
        case Scale::Half:
        case Scale::Nibbles:
            scales_[i] = ggml_fp32_to_fp16(static_cast<float>(scale));
            minimums_[i] = ggml_fp32_to_fp16(static_cast<float>(scale * layout_->minimum));
            break;
        }
    }
}

void WeightStream::next(std::span<std::byte> into) {
    if (layout_ != nullptr) {
        fill_blocks(into);
    } else {
        fill_floats(into);
    }
}

void WeightStream::fill_floats(std::span<std::byte> into) {
    const size_t count = into.size() / ggml_type_size(static_cast<ggml_type>(type_));
    floats_.resize(count);
    uint64_t bits = 0;
    for (size_t i = 0; i < count; ++i) {
        bits = i % 4 == 0 ? draw() : bits >> 16;
        const int number = static_cast<int16_t>(bits & 0xffff);
        // Each line rounds once, whether or not the compiler fuses it: the inner sum is exact.
        floats_[i] = static_cast<float>(mean_ == 0 ? number * step_ : mean_ * (1 + number * 0x1p-18));
    }
    switch (type_) {
    case GGML_TYPE_F16:
        ggml_fp32_to_fp16_row(floats_.data(), reinterpret_cast<ggml_fp16_t *>(into.data()),
                              static_cast<int64_t>(count));
        break;
    case GGML_TYPE_BF16:
        ggml_fp32_to_bf16_row_ref(floats_.data(), reinterpret_cast<ggml_bf16_t *>(into.data()),
                                  static_cast<int64_t>(count));
        break;
    default:
        std::memcpy(into.data(), floats_.data(), into.size());
        break;
    }
}

void WeightStream::fill_blocks(std::span<std::byte> into) {
    for (size_t at = 0; at < into.size(); at += sizeof(uint64_t)) {
        const uint64_t bits = draw();
        std::memcpy(into.data() + at, &bits, std::min(sizeof bits, into.size() - at));
    }
    for (size_t at = 0; at < into.size(); at += granule_) {
        const std::span<std::byte> block = into.subspan(at, granule_);
        shape_codes(block);
        put_scale(block);
    }
}

/// Turns codes that the type has no meaning for into ones that it has.
void WeightStream::shape_codes(std::span<std::byte> block) const {
    if (layout_->codes == Codes::Any) {
        return;
    }
    // tq1_0: five base-3 digits a byte, four in the last four bytes; tq2_0: two bits for -1, 0, 1.
    const size_t four_digits = layout_->at - 4;
    for (size_t i = 0; i < layout_->at; ++i) {
        const auto value = std::to_integer<unsigned>(block[i]);
        if (layout_->codes == Codes::Pairs) {
            block[i] = static_cast<std::byte>(value & ~((value << 1) & value & 0xaaU));
        } else {
            const unsigned digits = i < four_digits ? value % 243 : value % 81 * 3;
            block[i] = static_cast<std::byte>((digits * 256 + 242) / 243);
        }
    }
}

void WeightStream::put_scale(std::span<std::byte> block) const {
    std::byte *const at = block.data() + layout_->at;
    const size_t choice = std::to_integer<size_t>(*at) % scale_count;
    const uint16_t scale = scales_[choice];
    switch (layout_->scale) {
    case Scale::Half:
        std::memcpy(at, &scale, sizeof scale);
        if (layout_->minimum != 0) {
            std::memcpy(at + sizeof scale, &minimums_[choice], sizeof scale);
        }
        break;
    case Scale::E8m0:
        *at = static_cast<std::byte>(scale);
        break;
    case Scale::Ue4m3:
        for (size_t i = 0; i < 4; ++i) {
            at[i] = static_cast<std::byte>(scales_[std::to_integer<size_t>(at[i]) % scale_count]);
        }
        break;
    case Scale::Nibbles: // four 16-bit words hold a nibble of the half each, on top
        for (size_t i = 0; i < 4; ++i) {
            const unsigned nibble = (scale >> (4 * i)) & 0xfU;
            const unsigned low = std::to_integer<unsigned>(at[2 * i + 1]) & 0xfU;
            at[2 * i + 1] = static_cast<std::byte>(nibble << 4 | low);
        }
        break;
    }
}

} // namespace sluice::tools
