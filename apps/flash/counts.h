// What is counted of a streamed model, in one table: samples, totals and metrics are made of it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::flash {

/// Totals of one model since it was loaded. docs/flash.md says what each is.
struct Counts {
    uint64_t tokens = 0;
    uint64_t prompt_tokens = 0;
    uint64_t graphs = 0;
    uint64_t compute_nanoseconds = 0;
    uint64_t expert_wait_nanoseconds = 0;
    uint64_t row_wait_nanoseconds = 0;
    uint64_t cache_nanoseconds = 0;
    uint64_t between_nanoseconds = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t evictions = 0;
    uint64_t expert_read_bytes = 0;
    uint64_t row_read_bytes = 0;
    uint64_t device_bytes = 0;
    uint64_t device_busy_nanoseconds = 0;
};

/// One of them: told in milliseconds in JSON and in seconds among metrics if it is a time.
struct CountField {
    std::string_view name; ///< without the unit of a time
    uint64_t Counts::*value;
    bool is_time = false;
};

/// All of them, in the order of docs/flash.md.
inline constexpr std::array<CountField, 15> kCountFields = {{
    {"tokens", &Counts::tokens},
    {"prompt_tokens", &Counts::prompt_tokens},
    {"graphs", &Counts::graphs},
    {"compute", &Counts::compute_nanoseconds, true},
    {"expert_wait", &Counts::expert_wait_nanoseconds, true},
    {"row_wait", &Counts::row_wait_nanoseconds, true},
    {"cache", &Counts::cache_nanoseconds, true},
    {"between", &Counts::between_nanoseconds, true},
    {"hits", &Counts::hits},
    {"misses", &Counts::misses},
    {"evictions", &Counts::evictions},
    {"expert_read_bytes", &Counts::expert_read_bytes},
    {"row_read_bytes", &Counts::row_read_bytes},
    {"device_bytes", &Counts::device_bytes},
    {"device_busy", &Counts::device_busy_nanoseconds, true},
}};
static_assert(sizeof(Counts) == kCountFields.size() * sizeof(uint64_t), "a count is missing in the table");

/// What was counted from `before` to `after`.
inline Counts operator-(const Counts &after, const Counts &before) {
    Counts difference;
    for (const CountField &field : kCountFields) {
        difference.*field.value = after.*field.value - before.*field.value;
    }
    return difference;
}

} // namespace sluice::flash
