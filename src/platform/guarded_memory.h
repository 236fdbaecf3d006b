// Memory that must not be touched, and a sentence for who does.
#pragma once

#include <cstddef>
#include <span>

namespace sluice::platform {

/// While it lives, a fault at an address in its range writes a sentence to stderr before the process ends as
/// it would have: other handlers of the fault get their turn. Of more than 1,024 at a time the later ones
/// have no sentence. Move-only; making and destroying are thread-safe.
class GuardedMemory {
public:
    GuardedMemory() = default;
    explicit GuardedMemory(std::span<const std::byte> range);
    ~GuardedMemory();
    GuardedMemory(GuardedMemory &&other) noexcept;
    GuardedMemory &operator=(GuardedMemory &&other) noexcept;
    GuardedMemory(const GuardedMemory &) = delete;
    GuardedMemory &operator=(const GuardedMemory &) = delete;

private:
    int place_ = -1; ///< in the table that the handler looks at
};

} // namespace sluice::platform
