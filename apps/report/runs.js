// Runs, as their CSV files tell them (docs/telemetry.md). The program has checked the rows.
'use strict';

// The parts of a token's time, in the order in which charts stack them.
const parts = [
    { column: 'compute_ms', label: 'computing' },
    { column: 'expert_wait_ms', label: 'waiting for experts' },
    { column: 'row_wait_ms', label: 'waiting for rows' },
    { column: 'cache_ms', label: 'cache bookkeeping' },
    { column: 'sampling_ms', label: 'sampling' },
    { column: 'other_ms', label: 'other' },
];

const reads = [
    { column: 'expert_read_bytes', label: 'Experts', what: 'experts' },
    { column: 'row_read_bytes', label: 'Table rows', what: 'rows' },
    { column: 'speculative_read_bytes', label: 'Experts read ahead', what: 'experts read ahead' },
];

/** What was measured of a column. */
const measured = (rows, column) => rows.map((row) => row[column]).filter((value) => typeof value === 'number');

/** Sum of a column over rows; null if none of its fields was measured. */
function sum(rows, column) {
    const values = measured(rows, column);
    return values.length ? values.reduce((a, b) => a + b) : null;
}

const quotient = (part, whole) => (part === null || whole === null || !(whole > 0) ? null : part / whole);

const mean_of = (column) => (rows) => quotient(sum(rows, column), measured(rows, column).length);
const rate_of = (rows) => quotient(1000, mean_of('wall_ms')(rows));
const hit_rate_of = (rows) => {
    const hits = sum(rows, 'hits');
    const misses = sum(rows, 'misses');
    return hits === null || misses === null ? null : quotient(hits, hits + misses);
};
const resident_of = (rows) => {
    const mebibytes = mean_of('resident_mib')(rows);
    return mebibytes === null ? null : mebibytes * format.MIB;
};
/** Highest value of a column. */
const most_of = (column) => (rows) =>
    measured(rows, column).reduce((most, value) => Math.max(most ?? value, value), null);

/** The comments before the rows and after them, by key, and how the run ended. */
function parse_comments(text) {
    const comments = { config: new Map(), totals: new Map(), end: null };
    let into = comments.config;
    for (const line of text.split('\n')) {
        const [, key, value] = /^# ([^:]+): ?(.*)$/.exec(line) || [];
        if (line === '# summary') {
            into = comments.totals;
        } else if (key === 'end') {
            comments.end = value;
        } else if (key !== undefined) {
            into.set(key.trim(), value.trim());
        }
    }
    return comments;
}

/** What a reader must know of a run before comparing it: short marks, each with a sentence. */
function marks_of(run) {
    const marks = [];
    const said = (key) => {
        const value = run.config.get(key) || '';
        return /^(|no|none|false|0)$/i.test(value) ? null : value;
    };
    const part = 'what is shown is only what it had done by then';
    if (run.end === null) {
        marks.push({ mark: 'killed', why: `was killed: its file has no end, and ${part}.` });
    } else if (run.end === 'interrupted') {
        marks.push({ mark: 'interrupted', why: `was interrupted; ${part}.` });
    } else if (run.end !== 'complete') {
        marks.push({
            mark: 'failed',
            why: `failed (${run.end.replace(/^failed:? ?/, '') || 'no reason given'}); ${part}.`,
        });
    }
    if (said('instrumented')) {
        marks.push({
            mark: 'instrumented',
            why: 'was instrumented: measuring took time of its own, so its speed is not that of a plain run.',
        });
    }
    if (said('lossy')) {
        const how = said('lossy').toLowerCase() === 'yes' ? '' : ` (${said('lossy')})`;
        marks.push({ mark: 'lossy', why: `was lossy${how}: its output may differ from the model's.` });
    }
    return marks;
}

/** Totals of a run. */
function facts_of(run) {
    const { decode, prefill } = run;
    const total = (key) => {
        const value = parseFloat(run.totals.get(key));
        return Number.isFinite(value) ? value : null;
    };
    const scaled = (value, factor) => (value === null ? null : value * factor);
    const wait = parts
        .slice(1, 3)
        .map(({ column }) => sum(decode, column))
        .filter((value) => value !== null);
    return {
        tokens: decode.length,
        seconds: scaled(sum(decode, 'wall_ms'), 1e-3),
        rate: rate_of(decode),
        prompt_tokens: sum(prefill, 'batch_tokens') ?? 0,
        prompt_seconds: scaled(sum(prefill, 'wall_ms'), 1e-3),
        milliseconds: mean_of('wall_ms')(decode),
        parts: parts.map(({ column }) => mean_of(column)(decode)),
        wait_share: wait.length
            ? quotient(
                  wait.reduce((a, b) => a + b),
                  sum(decode, 'wall_ms'),
              )
            : null,
        hit_rate: hit_rate_of(decode),
        reads: reads.map(({ column }) => mean_of(column)(decode)),
        peak: scaled(
            total('peak_resident_MiB') ?? most_of('resident_mib')([...prefill, ...decode]),
            format.MIB,
        ),
        peak_is_seen: total('peak_resident_MiB') === null,
        major_faults: sum(decode, 'major_faults'),
        swap_ins: sum(decode, 'swap_ins'),
    };
}

/** A run, from its name and the text of its file. */
function parse_run({ name, text }) {
    const rows = Papa.parse(text, {
        header: true,
        delimiter: ',',
        comments: '#',
        dynamicTyping: true,
        skipEmptyLines: true,
    }).data;
    const run = {
        name,
        ...parse_comments(text),
        decode: rows.filter((row) => row.phase === 'decode'),
        prefill: rows.filter((row) => row.phase === 'prefill'),
    };
    run.marks = marks_of(run);
    run.label = run.marks.length ? `${name} (${run.marks.map(({ mark }) => mark).join(', ')})` : name;
    run.facts = facts_of(run);
    return run;
}

/** What a run did, in a sentence or two. */
function sentence_about({ facts, decode }) {
    const prompt =
        facts.prompt_tokens === 0
            ? ''
            : `${format.count(facts.prompt_tokens, 'prompt token')} in ${format.seconds(facts.prompt_seconds)}`;
    if (decode.length === 0) {
        return `${prompt ? `${prompt}; n` : 'N'}o token was generated.`;
    }
    const shares = facts.parts
        .map((milliseconds, i) => ({
            label: parts[i].label,
            share: quotient(milliseconds, facts.milliseconds),
        }))
        .filter(({ share }) => share !== null && share >= 0.05)
        .sort((a, b) => b.share - a.share)
        .map(({ label, share }) => `${format.percent(Math.round(100 * share) / 100)} ${label}`);
    const read = facts.reads
        .map((value, i) => (value > 0 ? `${format.bytes(value)} of ${reads[i].what}` : ''))
        .filter((text) => text !== '');
    const split = shares.length ? format.list(shares) : 'no part was measured';
    return [
        `${format.count(facts.tokens, 'token')} at ${format.rate(facts.rate)}${prompt ? `, after ${prompt}` : ''}.`,
        `Of a token's ${format.milliseconds(facts.milliseconds)}, ${split}.`,
        facts.hit_rate === null
            ? ''
            : `${format.percent(facts.hit_rate)} of what tokens asked for was in the cache.`,
        read.length ? `Each token read ${format.list(read)}.` : '',
        facts.peak === null
            ? ''
            : `Memory ${facts.peak_is_seen ? 'was seen at' : 'peaked at'} ${format.bytes(facts.peak)}.`,
    ]
        .filter((text) => text !== '')
        .join(' ');
}
