// Reproducible random weights in every type a model file can hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tools {

/// How a tensor's values are drawn. With a mean of 0: evenly, with standard deviation `spread`.
/// Otherwise (plain float types only): mean times 0.875 to 1.125.
struct Fill {
    double mean = 0;
    double spread = 1;
};

/// How the random bytes of one quantised type become weights: which of them are scales.
struct BlockLayout {
    enum class Scale { Half, E8m0, Ue4m3, Nibbles };
    enum class Codes { Any, Trits, Pairs };

    int type = 0;       ///< a ggml_type
    double spread = 1;  ///< standard deviation of the values when the scale is 1
    size_t at = 0;      ///< where in the block the scale is
    double minimum = 0; ///< not 0: a second half after the scale, this many times the scale
    Scale scale = Scale::Half;
    Codes codes = Codes::Any;
};

/// The ggml_type called `name` ("q4_K", any case), if weights can be made in it.
std::optional<int> weight_type(std::string_view name);

/// Names of all types that weight_type() knows, comma separated.
std::string weight_type_names();

/// The bytes of one tensor, from first to last. They depend on type, fill, name and seed alone: only
/// integer arithmetic and exactly rounded operations are used, so that every machine gets the same.
/// (Quantising floats would not do: compilers may fuse multiply and add, and rounding then differs.)
class WeightStream {
public:
    /// `type` must be one that weight_type() returns.
    WeightStream(int type, const Fill &fill, std::string_view name, uint64_t seed);

    /// Bytes that `into` must be a multiple of, save at the tensor's end.
    [[nodiscard]] size_t granule() const { return granule_; }

    /// The next `into.size()` bytes, whole blocks of the type.
    void next(std::span<std::byte> into);

private:
    static constexpr size_t scale_count = 16;

    uint64_t draw();
    void fill_floats(std::span<std::byte> into);
    void fill_blocks(std::span<std::byte> into);
    void prepare_scales(const Fill &fill);
    void shape_codes(std::span<std::byte> block) const;
    void put_scale(std::span<std::byte> block) const;

    int type_;
    const BlockLayout *layout_ = nullptr; ///< null for plain float types
    size_t granule_;
    uint64_t state_;
    double mean_ = 0;
    double step_ = 0; ///< plain floats: value of one step of a 16-bit draw
    std::array<uint16_t, scale_count> scales_{};
    std::array<uint16_t, scale_count> minimums_{};
    std::vector<float> floats_;
};

} // namespace sluice::tools
