// The charts of runs, over their generated tokens.
'use strict';

/** How many tokens the points of a chart stand for. One for all charts, so that they line up. */
const averaging = { tokens: 1 };

function averaging_choices(most_tokens) {
    const choices = [];
    for (let tokens = 1; tokens === 1 || tokens <= most_tokens / 8; tokens *= 2) {
        if (most_tokens / tokens <= 2048) {
            choices.push(tokens);
        }
    }
    return choices;
}

/** Points of a run: `value(rows)` of each group of tokens. */
function points_of(run, value) {
    const points = [];
    for (let from = 0; from < run.decode.length; from += averaging.tokens) {
        const to = Math.min(from + averaging.tokens, run.decode.length);
        points.push({ x: (from + 1 + to) / 2, y: value(run.decode.slice(from, to)), from: from + 1, to });
    }
    return points;
}

const token_axis = (runs) =>
    theme.count_axis('generated token', 1, Math.max(2, ...runs.map(({ decode }) => decode.length)));

const tokens_title = (items) => {
    const { from, to } = items.length ? items[0].raw : {};
    return items.length === 0 ? '' : from === to ? `token ${from}` : `tokens ${from} to ${to}`;
};

/** A figure with a line for each run. `text(y)` writes a value; `axis` is the one of values. */
function line_figure({ runs, title, label, value, text, axis }) {
    const config = () => ({
        type: 'line',
        data: {
            datasets: runs
                .map((run, index) => {
                    const { colour, dash } = theme.run_style(index);
                    const data = points_of(run, value);
                    return {
                        label: run.label,
                        data,
                        borderColor: colour,
                        backgroundColor: colour,
                        borderDash: dash,
                        borderWidth: 2,
                        pointRadius: data.length < 24 ? 3 : 0,
                        pointHitRadius: 8,
                        pointStyle: 'line',
                        tension: 0,
                    };
                })
                .filter(({ data }) => data.length),
        },
        options: theme.options(
            { x: token_axis(runs), y: axis() },
            { title: tokens_title, label: (item) => ` ${item.dataset.label}: ${text(item.raw.y)}` },
        ),
    });
    const notes = () =>
        runs.map((run) => {
            const values = points_of(run, value)
                .map(({ y }) => y)
                .filter((y) => y !== null);
            if (values.length === 0) {
                return `${run.label}: ${run.decode.length ? format.unmeasured : 'nothing was generated'}.`;
            }
            const low = values.reduce((a, b) => Math.min(a, b));
            const high = values.reduce((a, b) => Math.max(a, b));
            return `${run.label}: ${text(value(run.decode))} over all tokens, from ${text(low)} to ${text(high)}.`;
        });
    return chart_figure({ title, label, config, notes });
}

/** A figure of bytes: `value` of rows in the unit that suits the largest of all, for round numbers on the axis. */
function byte_figure({ runs, title, label, what, value }) {
    const most = Math.max(0, ...runs.flatMap((run) => points_of(run, value).map(({ y }) => y ?? 0)));
    const [name, size] = format.byte_unit(most);
    return line_figure({
        runs,
        title,
        label,
        value: (rows) => quotient(value(rows), size),
        text: (y) => format.bytes(y === null ? null : y * size),
        axis: () => theme.axis(`${name} ${what}`, { grace: '5%' }),
    });
}

/** The parts that any run has; the others would be empty bands. */
const present_parts = (runs) =>
    parts
        .map((part, index) => ({ ...part, index }))
        .filter(({ index }) => runs.some(({ facts }) => facts.parts[index] > 0));

/** A bar for each run, of the parts of its mean token. */
function part_bars(runs) {
    const shown = present_parts(runs);
    const short = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);
    const lines = ({ name, marks }) => [short(name), ...marks.map(({ mark }) => `(${mark})`)];
    const config = () => ({
        type: 'bar',
        data: {
            labels: runs.map(({ label }) => label),
            datasets: shown.map(({ label, index }) => ({
                label,
                data: runs.map(({ facts }, run) => ({ y: run, x: Math.max(0, facts.parts[index] ?? 0) })),
                backgroundColor: theme.part_colour(index),
                borderColor: theme.variable('background'),
                borderWidth: 1,
                maxBarThickness: 28,
                pointStyle: 'rect',
            })),
        },
        options: theme.options(
            {
                x: theme.axis('ms per token', { stacked: true }),
                y: theme.axis('', {
                    stacked: true,
                    title: { display: false },
                    grid: { display: false },
                    ticks: { color: theme.variable('text'), callback: (tick) => lines(runs[tick]) },
                }),
            },
            { label: (item) => ` ${item.dataset.label}: ${format.milliseconds(item.raw.x)}` },
            { indexAxis: 'y' },
        ),
    });
    const notes = () =>
        runs.map(({ label, facts }) => {
            const texts = shown.map((part) => `${part.label} ${format.milliseconds(facts.parts[part.index])}`);
            return `${label}: ${texts.join(', ')}.`;
        });
    return chart_figure({
        label: 'Time of a token by part, mean of each run',
        height: `${9 + 3.5 * runs.length}rem`,
        config,
        notes,
    });
}

/** The highest stack of all runs: one scale for all, or their heights could not be compared. */
const highest_stack = (runs, shown) =>
    Math.max(
        ...runs.flatMap((run) =>
            points_of(run, (rows) =>
                shown.reduce((total, { column }) => total + Math.max(0, mean_of(column)(rows) ?? 0), 0),
            ).map(({ y }) => y),
        ),
    );

function part_areas(run, runs) {
    const shown = present_parts(runs);
    const config = () => ({
        type: 'line',
        data: {
            datasets: shown.map(({ label, column, index }, place) => ({
                label,
                data: points_of(run, (rows) => Math.max(0, mean_of(column)(rows) ?? 0)),
                fill: place === 0 ? 'origin' : '-1',
                backgroundColor: theme.part_colour(index),
                borderColor: theme.variable('background'),
                borderWidth: 0.5,
                pointRadius: 0,
                pointStyle: 'rect',
            })),
        },
        options: theme.options(
            {
                x: token_axis(runs),
                y: theme.axis('ms per token', { stacked: true, suggestedMax: highest_stack(runs, shown) }),
            },
            {
                title: tokens_title,
                label: (item) => ` ${item.dataset.label}: ${format.milliseconds(item.raw.y)}`,
                footer: (items) =>
                    `together: ${format.milliseconds(items.reduce((total, { raw }) => total + raw.y, 0))}`,
            },
        ),
    });
    const notes = () => {
        const unmeasured = shown
            .filter(({ index }) => run.facts.parts[index] === null)
            .map(({ label }) => label);
        const times = points_of(run, mean_of('wall_ms')).map(({ y }) => y ?? 0);
        const [low, high] = [Math.min(...times), Math.max(...times)].map(format.milliseconds);
        const range = `From ${low} to ${high} per token.`;
        return unmeasured.length ? [range, `Unmeasured in this run: ${format.list(unmeasured)}.`] : [range];
    };
    return chart_figure({ title: run.label, label: `Time of a token by part, ${run.label}`, config, notes });
}

/** Bytes read, a figure for each kind that any run has read. */
function read_figures(runs) {
    return reads
        .filter((read, i) => runs.some(({ facts }) => facts.reads[i] > 0))
        .map(({ column, label }) =>
            byte_figure({
                runs,
                title: label,
                label: `Bytes read per token: ${label}`,
                what: 'per token',
                value: mean_of(column),
            }),
        );
}
