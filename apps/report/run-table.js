// The table on top: what came out, and how the runs were set up.
'use strict';

/** A sample of a run's line in the charts. */
function line_sample(index) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('class', 'line-sample');
    svg.setAttribute('viewBox', '0 0 32 12');
    svg.setAttribute('aria-hidden', 'true');
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    for (const [name, value] of Object.entries({ x1: 0, y1: 6, x2: 32, y2: 6, 'stroke-width': 3 })) {
        line.setAttribute(name, value);
    }
    svg.append(line);
    theme.drawn_by(() => {
        const style = theme.run_style(index);
        line.setAttribute('stroke', style.colour);
        line.setAttribute('stroke-dasharray', style.dash.join(' '));
    });
    return svg;
}

function header_of(runs) {
    return element(
        'thead',
        {},
        element(
            'tr',
            {},
            element('td', {}),
            ...runs.map((run, index) => {
                const badges = run.marks.length
                    ? run.marks.map(({ mark }) => element('span', { class: 'badge' }, mark))
                    : [element('span', { class: 'badge complete' }, 'complete')];
                return element(
                    'th',
                    { scope: 'col' },
                    line_sample(index),
                    run.name,
                    element('br', {}),
                    ...badges,
                );
            }),
        ),
    );
}

/** A row of the table; `marked` says which of the cells stand out. */
function table_row(label, texts, marked) {
    return element(
        'tr',
        {},
        element('th', { scope: 'row' }, label),
        ...texts.map((text, i) => element('td', marked && marked(i) ? { class: 'differs' } : {}, text)),
    );
}

function table_body(title, rows, columns) {
    const head = element('tr', {}, element('th', { scope: 'rowgroup', colspan: columns + 1 }, title));
    return element('tbody', {}, head, ...rows);
}

function result_rows(runs) {
    const row = (label, text_of) =>
        table_row(
            label,
            runs.map(({ facts }) => text_of(facts)),
        );
    const rows = [
        row('speed', (facts) => (facts.tokens ? format.rate(facts.rate) : 'nothing was generated')),
        row(
            'generated',
            (facts) => `${format.count(facts.tokens, 'token')} in ${format.seconds(facts.seconds ?? 0)}`,
        ),
        row('time of a token', (facts) => format.milliseconds(facts.milliseconds)),
        row('of it, waiting for storage', (facts) => format.percent(facts.wait_share)),
        row('hit rate', (facts) => format.percent(facts.hit_rate)),
        ...reads.map((read, i) => row(`${read.what}, read per token`, (facts) => format.bytes(facts.reads[i]))),
        row('prompt', (facts) =>
            facts.prompt_tokens
                ? `${format.count(facts.prompt_tokens, 'token')} in ${format.seconds(facts.prompt_seconds)}, ` +
                  format.rate(quotient(facts.prompt_tokens, facts.prompt_seconds))
                : 'none',
        ),
        row(
            'peak memory',
            (facts) =>
                format.bytes(facts.peak) + (facts.peak !== null && facts.peak_is_seen ? ' (highest seen)' : ''),
        ),
    ];
    for (const [label, key] of [
        ['pages read back (major faults)', 'major_faults'],
        ['pages swapped in', 'swap_ins'],
    ]) {
        if (runs.some(({ facts }) => facts[key] > 0)) {
            rows.push(row(label, (facts) => format.number(facts[key])));
        }
    }
    return rows;
}

/** A configuration value as people read it. */
function config_text(key, value) {
    if (value === undefined) {
        return 'not given';
    }
    if (value !== '' && Number.isFinite(Number(value))) {
        if (/_bytes$/.test(key)) {
            return format.bytes(Number(value));
        }
        if (/_MiB$/i.test(key)) {
            return format.bytes(Number(value) * format.MIB);
        }
    }
    return value === '' ? 'empty' : value;
}

const config_label = (key) => key.replace(/_(MiB|bytes)$/i, '').replace(/_/g, ' ');

/** Rows of the configuration: of what differs between runs, and of what doesn't. */
function config_rows(runs) {
    const rows = { differing: [], same: [] };
    const keys = new Set(runs.flatMap((run) => [...run.config.keys()]));
    for (const key of keys) {
        const values = runs.map((run) => run.config.get(key));
        const texts = values.map((value) => config_text(key, value));
        const differs = values.some((value) => value !== values[0]);
        // When a run began is its own; what stands out is what differs from the first run.
        const marked = key === 'started' ? null : (i) => values[i] !== values[0];
        (differs ? rows.differing : rows.same).push(
            table_row(config_label(key), texts, differs ? marked : null),
        );
    }
    return rows;
}

function add_run_table(runs) {
    const { differing, same } = config_rows(runs);
    const scroll = (table) =>
        element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of runs' }, table);
    const table = element('table', {}, header_of(runs), table_body('Results', result_rows(runs), runs.length));
    if (differing.length) {
        table.append(table_body('Configuration that differs', differing, runs.length));
    }
    const about =
        runs.length > 1
            ? "One column for each run. In the configuration, values unlike the first run's stand out."
            : 'What came out of the run, and how it was set up.';
    const details = element(
        'details',
        {},
        element(
            'summary',
            {},
            runs.length > 1
                ? `Configuration that is the same in all runs (${same.length} lines)`
                : 'Configuration',
        ),
        scroll(element('table', {}, header_of(runs), element('tbody', {}, ...same))),
    );
    section('Runs', about, scroll(table), ...(same.length ? [details] : []));
}
