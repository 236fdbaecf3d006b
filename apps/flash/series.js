// What was measured in the last two minutes, and what charts make of it.
'use strict';

/** The parts of time, in the order in which charts stack them. */
const time_parts = [
    { field: 'compute_ms', label: 'computing' },
    { field: 'expert_wait_ms', label: 'waiting for experts' },
    { field: 'row_wait_ms', label: 'waiting for rows' },
    { field: 'cache_ms', label: 'cache bookkeeping' },
    { field: 'between_ms', label: 'between tokens' },
];

const share_of = (part, whole) => (part === null || !(whole > 0) ? null : part / whole);

/** Numbers of one sample. */
const measures = {
    tokens_per_second: ({ tokens, interval_ms }) => share_of(tokens * 1000, interval_ms),
    prompt_tokens_per_second: ({ prompt_tokens, interval_ms }) => share_of(prompt_tokens * 1000, interval_ms),
    hit_rate: ({ hits, misses }) => share_of(hits, hits + misses),
    read_rate: ({ expert_read_bytes, row_read_bytes, interval_ms }) =>
        share_of((expert_read_bytes + row_read_bytes) * 1000, interval_ms),
    device_rate: ({ device_bytes, device_busy_ms }) => share_of(device_bytes * 1000, device_busy_ms),
    part_share: (field) => (sample) => share_of(sample[field], sample.interval_ms),
    waiting_share: ({ expert_wait_ms, row_wait_ms, interval_ms }) =>
        share_of(expert_wait_ms + row_wait_ms, interval_ms),
};

const series = (() => {
    const kept_ms = 120000;
    const gap_ms = 1500; // nobody measured in between
    let samples = [];

    function add(sample) {
        const newest = samples[samples.length - 1];
        if (newest && sample.time_ms <= newest.time_ms) {
            return;
        }
        samples.push(sample);
        samples = samples.filter(({ time_ms }) => time_ms > sample.time_ms - kept_ms);
    }

    const newest = () => samples[samples.length - 1];

    /** Points of `value(sample)` by seconds before the newest, with gaps where nothing was measured. */
    function points(value) {
        const now = newest() ? newest().time_ms : 0;
        const made = [];
        samples.forEach((sample, i) => {
            const x = (sample.time_ms - now) / 1000;
            if (i > 0 && sample.time_ms - sample.interval_ms - samples[i - 1].time_ms > gap_ms) {
                made.push({ x: (samples[i - 1].time_ms - now) / 1000 + 0.001, y: null });
            }
            made.push({ x, y: value(sample) });
        });
        return made;
    }

    /** Sum of a field over what is kept. */
    const sum = (field) => samples.reduce((total, sample) => total + (sample[field] ?? 0), 0);

    return {
        seconds: kept_ms / 1000,
        begin: (history) => {
            samples = [];
            history.forEach(add);
        },
        add,
        newest,
        points,
        sum,
    };
})();
