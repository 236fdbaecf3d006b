// How much each expert was used lately.
#pragma once

#include "flash_model.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::flash {

/// A use weighs half after this much time in which the model computed.
inline constexpr std::chrono::milliseconds kHeatHalfLife{30000};

/// One layer, as docs/flash.md has it.
struct LayerHeat {
    size_t experts = 0;
    size_t cached = 0;
    size_t used = 0;
    std::string cells;
};

/// Of one model. Not thread-safe.
class Heat {
public:
    /// `seconds` of computing later than the last call, experts were asked for so often in all.
    void add(const std::vector<LayerUse> &layers, double seconds);

    [[nodiscard]] std::vector<LayerHeat> layers() const;

private:
    std::vector<LayerUse> last_;
    std::vector<std::vector<double>> uses_; ///< weighed, by layer and expert
};

} // namespace sluice::flash
