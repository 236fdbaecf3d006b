// A server's state as docs/flash.md has it, with made-up numbers that move.

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** The same numbers for each run. */
function numbers(seed) {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

const setting = (name, flags, group, about, more) => ({
    name,
    flags,
    group,
    about,
    type: 'number',
    unit: '',
    choices: [],
    words: [],
    off_flag: more.type === 'switch' ? `--no-${name}` : '',
    min: null,
    max: null,
    value: null,
    set_by: 'default',
    reason: '',
    apply: 'restart',
    lossy: false,
    ...more,
});

export const settings = () => [
    setting('ram-mb', ['--ram-mb'], 'Memory and cache', 'The most memory that all of this may take.', {
        unit: 'MiB', min: 1, value: 3072, set_by: 'user', reason: '--ram-mb',
    }),
    setting('moe-stream', ['--moe-stream'], 'Memory and cache', 'Leave experts on storage and read those that are needed.', {
        type: 'switch', value: true, set_by: 'plan', reason: 'the model is larger than the ceiling',
    }),
    setting('cache-mb', ['--cache-mb'], 'Memory and cache', 'Memory for experts that were read: more of it means fewer reads.', {
        unit: 'MiB', words: ['auto'], min: 140, max: 2000, value: 1800, set_by: 'plan', reason: 'what the ceiling leaves', apply: 'now',
    }),
    setting('cache-policy', ['--cache-policy'], 'Memory and cache', 'How a full cache chooses the experts that it drops.', {
        type: 'choice', choices: ['next-use', 'lru', 'lfu'], value: 'next-use',
    }),
    setting('dense-weights', ['--dense-weights'], 'Dense weights and rows', 'How the weights that every token needs are held.', {
        type: 'choice', choices: ['anon', 'mmap', 'warm', 'locked', 'ahwb'], value: 'anon', set_by: 'plan', reason: 'they fit beside a cache that pays',
    }),
    setting('row-stream', ['--row-stream'], 'Dense weights and rows', 'Read only the rows that are needed of tables that are never multiplied.', {
        type: 'switch', value: true, set_by: 'user', reason: '--row-stream',
    }),
    setting('row-stream-mb', ['--row-stream-mb'], 'Dense weights and rows', 'Memory for such rows.', {
        unit: 'MiB', min: 0.015625, value: 64,
    }),
    setting('lookahead', ['--lookahead'], 'Guessing ahead and reading', 'Experts of the next layer to guess and read early.', {
        unit: 'experts', words: ['auto', 'off'], min: 0, max: 1024, value: 'auto', apply: 'now', set_by: 'run', reason: 'on: off takes 3 % longer',
    }),
    setting('io-engine', ['--io-engine'], 'Guessing ahead and reading', 'What reads experts and rows.', {
        type: 'choice', choices: ['auto', 'uring', 'threads'], value: 'auto', set_by: 'run', reason: 'io_uring, 4 in flight: 8 takes as long',
    }),
    setting('io-depth', ['--io-depth'], 'Guessing ahead and reading', 'Reads in flight at once in Linux\u2019s ring.', {
        min: 1, max: 1024, set_by: 'run', reason: 'io_uring, 4 in flight: 8 takes as long',
    }),
    setting('direct', ['--direct'], 'Guessing ahead and reading', 'Read past the system\u2019s page cache, which would hold everything twice.', {
        type: 'switch', value: true,
    }),
    setting('drop-cold', ['--drop-cold'], 'Lossy', 'Leave out experts that are not in the cache and weigh less than this share of an even one.', {
        min: 0, max: 1024, value: 0, apply: 'now', lossy: true,
    }),
    setting('substitute', ['--substitute'], 'Lossy', 'Use experts in the cache in the place of others whose score is higher by at most this share.', {
        min: 0, max: 1, value: 0, apply: 'now', lossy: true,
    }),
    setting('n-expert-used', ['--n-expert-used'], 'Lossy', 'Experts that a token uses in each layer, instead of the model\u2019s number.', {
        min: 1, max: 1024, value: null, lossy: true,
    }),
    setting('threads', ['-t', '--threads'], 'Context and processor', 'Processor threads that compute.', {
        min: 1, max: 512, value: 2, set_by: 'run', reason: '2: 1 takes 40 % longer',
    }),
    setting('ctx-size', ['-c', '--ctx-size'], 'Context and processor', 'How much text the model sees at once.', {
        unit: 'tokens', min: 0, value: 8192, set_by: 'user', reason: '-c',
    }),
    setting('ubatch-size', ['-ub', '--ubatch-size'], 'Context and processor', 'Tokens of a prompt computed together: more are quicker and take memory.', {
        unit: 'tokens', min: 1, max: 65536, value: 512, set_by: 'plan', reason: 'the usual number fits',
    }),
];

const sample = (time_ms, next, limit) => {
    const computing = 560 + 60 * next();
    const waiting = 240 + 120 * next();
    const hits = Math.round(2600 + 120 * next());
    return {
        time_ms,
        interval_ms: 1000,
        tokens: 10 + Math.round(2 * next()),
        prompt_tokens: 0,
        graphs: 11,
        compute_ms: computing,
        expert_wait_ms: waiting,
        row_wait_ms: 6 + 4 * next(),
        cache_ms: 12 + 3 * next(),
        between_ms: 20 + 5 * next(),
        hits,
        misses: Math.round(240 + 160 * next()),
        evictions: 280,
        expert_read_bytes: Math.round((260 + 90 * next()) * MIB),
        row_read_bytes: Math.round(0.4 * MIB),
        device_bytes: Math.round((270 + 90 * next()) * MIB),
        device_busy_ms: 300 + 60 * next(),
        resident_bytes: Math.round(2.1 * GIB + limit - 1800 * MIB + 20 * MIB * next()),
        cache_held_bytes: limit,
    };
};

function heat(next) {
    const layers = Array.from({ length: 24 }, () => {
        let cells = '';
        for (let expert = 0; expert < 128; ++expert) {
            const level = Math.min(9, Math.floor(-2.2 * Math.log(1 - 0.98 * next())));
            cells += String.fromCharCode((next() < 0.25 + level / 8 ? 97 : 48) + level);
        }
        return {
            experts: 128,
            cached: [...cells].filter((cell) => cell >= 'a').length,
            used: [...cells].filter((cell) => cell !== '0' && cell !== 'a').length,
            cells,
        };
    });
    return { half_life_ms: 30000, layers };
}

/** What a server does: next() is the state a second later, settings stay as they are set. */
export class MadeUp {
    constructor() {
        this.next_number = numbers(7);
        this.time_ms = Date.UTC(2025, 0, 1);
        this.settings = settings();
        this.limit = 1800 * MIB;
        this.samples = [];
        for (let i = 0; i < 60; ++i) {
            this.next();
        }
    }

    set(name, value) {
        const found = this.settings.find((each) => each.name === name);
        Object.assign(found, { value, set_by: 'panel', reason: '' });
        if (name === 'cache-mb') {
            this.limit = value * MIB;
        }
    }

    trim() {
        return { freed_bytes: this.limit };
    }

    next() {
        this.time_ms += 1000;
        this.samples.push(sample(this.time_ms, this.next_number, this.limit));
        this.samples = this.samples.slice(-300);
        return this.state();
    }

    state() {
        const newest = this.samples[this.samples.length - 1];
        const total = (field) => this.samples.reduce((sum, each) => sum + each[field], 0);
        return {
            v: 1,
            version: '0.1.0',
            time_ms: this.time_ms,
            uptime_ms: 1000 * this.samples.length,
            arguments: ['sluice', 'serve', '-m', '/models/made-up-moe-8b-Q4_K_M.gguf', '--ram-mb=3072', '-c', '8192', '--row-stream'],
            router: false,
            memory: {
                resident_bytes: newest.resident_bytes,
                peak_bytes: newest.resident_bytes + 40 * MIB,
                ceiling_bytes: 3 * GIB,
                ceiling_source: '--ram-mb',
                available_bytes: 5 * GIB,
            },
            models: [
                {
                    id: 0,
                    name: 'made-up-moe-8b-Q4_K_M.gguf',
                    path: '/models/made-up-moe-8b-Q4_K_M.gguf',
                    mode: 'streaming',
                    mode_reason: 'the model is larger than the ceiling',
                    lossy: '',
                    file_bytes: Math.round(8.1 * GIB),
                    streamed_bytes: Math.round(7.4 * GIB),
                    last_error: null,
                    dense: { mode: 'anon', bytes: 420 * MIB, mapped_bytes: 0, resident: 1, swapped: 0 },
                    rows: {
                        on: true,
                        table_bytes: 210 * MIB,
                        resident_bytes: 12 * MIB,
                        window_bytes: 64 * MIB,
                        rows: 5 * total('tokens'),
                        reads: 2 * total('tokens'),
                        read_bytes: total('row_read_bytes'),
                        evictions: 0,
                        read_errors: 0,
                        tables: [{ name: 'token_embd.weight', bytes: 210 * MIB, streamed: true, reason: '' }],
                    },
                    cache: {
                        policy: 'next-use',
                        limit_bytes: this.limit,
                        capacity_bytes: 2000 * MIB,
                        held_bytes: newest.cache_held_bytes,
                        minimum_bytes: 140 * MIB,
                        working_set_bytes: 500 * MIB,
                    },
                    settled: [
                        { name: 'threads', choice: '2', why: '1 takes 40 % longer' },
                        { name: 'reading', choice: 'io_uring, 4 in flight', why: '8 takes as long' },
                        { name: 'lookahead', choice: 'on', why: 'off takes 3 % longer' },
                    ],
                    tokens_tried: 96,
                    totals: Object.fromEntries(
                        Object.keys(newest)
                            .filter((field) => !/^(time_ms|interval_ms|resident_bytes|cache_held_bytes)$/.test(field))
                            .map((field) => [field, total(field)])
                            .concat([['read_errors', 0], ['buffered_fallbacks', 0], ['dropped_experts', 0], ['substituted_experts', 0]]),
                    ),
                    heat: heat(this.next_number),
                    sample: newest,
                    history: this.samples.slice(0, -1),
                    settings: this.settings,
                },
            ],
        };
    }
}
