// The charts of a routing trace.
'use strict';

/** Colours grow with the square root of the share: most experts are used rarely, and should be told apart. */
const warmth = (facts, use) => Math.sqrt(use / facts.most);

function heat_figure(facts, state) {
    const expert_at = (layer, column) =>
        state.order === 'use' ? facts.layer_list[layer].order[column] : column;
    const colours = () => {
        const blank = theme.variable('background');
        return (layer, column) => {
            const use = facts.layer_list[layer].uses[expert_at(layer, column)];
            return use ? theme.heat_colour(warmth(facts, use)) : blank;
        };
    };
    let chart = null;
    const axis = (title, count, more) =>
        theme.count_axis(title, -0.5, count - 0.5, { grid: { display: false }, ...more });
    const config = () => ({
        type: 'scatter',
        data: { datasets: [] },
        options: theme.options(
            {
                x: axis(
                    state.order === 'use' ? 'experts of each layer, the most used first' : 'expert',
                    facts.experts,
                ),
                y: axis('layer', facts.layers, { reverse: true }),
            },
            {},
            { plugins: { legend: { display: false }, tooltip: { enabled: false } } },
        ),
        plugins: [
            heat_cells({ rows: facts.layers, columns: facts.experts, colour: colours() }),
            {
                id: 'keep',
                beforeInit: (made) => {
                    chart = made;
                },
            },
        ],
    });
    const notes = () => {
        const [hottest] = facts.layer_list
            .map(({ uses, order }, layer) => ({ layer, expert: order[0], use: uses[order[0]] }))
            .sort((a, b) => b.use - a.use);
        const share = format.percent(hottest.use / facts.tokens);
        return [
            `Most used: expert ${hottest.expert} of layer ${hottest.layer}, by ${share} of tokens.`,
            'Experts that no token used are blank.',
        ];
    };
    const height = Math.max(14, Math.min(48, 5 + facts.layers * 0.7));
    const figure = chart_figure({
        label: 'Share of tokens that use each expert, by layer',
        height: `${height}rem`,
        config,
        notes,
    });
    const tip = (layer, column) => {
        const { uses, rank } = facts.layer_list[layer];
        const expert = expert_at(layer, column);
        return [
            `layer ${layer}, expert ${expert}`,
            `${format.percent(uses[expert] / facts.tokens)} of tokens (${uses[expert]} of ${facts.tokens})`,
            `place ${rank[expert] + 1} of ${facts.experts} in its layer`,
        ].join('\n');
    };
    add_tip(figure.querySelector('canvas'), () => chart, tip);
    return figure;
}

/** Lines over a numeric axis; `lines` are {label, points}, those with `faint` for comparison only. */
function curves({ label, lines, x, y, title, text, notes }) {
    const config = () => ({
        type: 'line',
        data: {
            datasets: lines.map(({ label: name, points, faint }, index) => {
                const { colour, dash } = theme.run_style(index);
                return {
                    label: name,
                    data: points,
                    borderColor: faint ? theme.variable('soft') : colour,
                    backgroundColor: colour,
                    borderDash: faint ? [2, 4] : dash,
                    borderWidth: faint ? 1.5 : 2,
                    pointRadius: points.length < 24 ? 3 : 0,
                    pointHitRadius: 8,
                    pointStyle: 'line',
                };
            }),
        },
        options: theme.options(
            { x: x(), y: y() },
            {
                title: (items) => (items.length ? title(items[0].raw.x) : ''),
                label: (item) => ` ${item.dataset.label}: ${text(item.raw.y)}`,
            },
        ),
    });
    return chart_figure({ label, config, notes });
}

const ticks = (callback) => ({ ...theme.axis('').ticks, callback });
const percent_axis = (title) => theme.axis(title, { ticks: ticks((tick) => format.percent(tick)) });

function concentration_figure(facts) {
    const steps = 100;
    const shares = Array.from({ length: steps + 1 }, (_, i) => i / steps);
    const points = [];
    let [served, at] = [0, 0];
    for (const share of shares) {
        for (; at < Math.round(share * facts.slots); ++at) {
            served += facts.sorted[at];
        }
        points.push({ x: share, y: served / facts.total });
    }
    return curves({
        label: 'Share of uses that the most used experts serve',
        lines: [
            { label: 'this trace', points },
            { label: 'all experts used alike', points: shares.map((x) => ({ x, y: x })), faint: true },
        ],
        x: () =>
            theme.axis('share of the experts, the most used first', {
                type: 'linear',
                max: 1,
                ticks: ticks((tick) => format.percent(tick)),
            }),
        y: () => ({ ...percent_axis('share of uses'), max: 1 }),
        title: (x) => `the most used ${format.percent(x)} of the experts`,
        text: format.percent,
        notes: () => {
            const needed = (uses) => format.percent(points.find(({ y }) => y >= uses).x);
            return [
                `To serve half of all uses takes ${needed(0.5)} of the experts, nine tenths ${needed(0.9)}.`,
            ];
        },
    });
}

function growth_figure(facts) {
    const share = (pick) =>
        facts.windows.map((window) => ({ x: window.tokens, y: pick(window) / facts.slots }));
    return curves({
        label: 'Experts that tokens in a row use',
        lines: [
            { label: 'mean', points: share(({ mean_slots }) => mean_slots) },
            { label: 'most', points: share(({ most_slots }) => most_slots) },
        ],
        x: () =>
            theme.axis('tokens in a row', {
                type: 'logarithmic',
                beginAtZero: false,
                min: 1,
                afterBuildTicks: (axis) => {
                    axis.ticks = facts.windows.map(({ tokens }) => ({ value: tokens }));
                },
                ticks: ticks((tick) => format.number(tick)),
            }),
        y: () => percent_axis('share of the experts'),
        title: (x) => format.count(x, 'token') + (x > 1 ? ' in a row' : ''),
        text: (y) => `${format.percent(y)}, ${format.number(y * facts.slots)} experts`,
        notes: () =>
            facts.windows
                .filter((_, i) => i % 2 === 0)
                .map(
                    ({ tokens, mean_slots }) =>
                        `${format.count(tokens, 'token')}: ${format.number(mean_slots)} experts on average.`,
                ),
    });
}

function time_figure(facts) {
    const chosen = facts.windows.filter(
        ({ tokens }) => [1, 8, 32, 128, 512].includes(tokens) && tokens <= facts.tokens / 2,
    );
    const places = facts.windows[0].ends; // those of the others are the same, less the first ones
    return curves({
        label: 'Experts used by the latest tokens, over the trace',
        lines: chosen.map(({ tokens, ends, slots }) => ({
            label: tokens === 1 ? 'one token' : `the last ${tokens} tokens`,
            points: places.map((x, i) => {
                const used = slots[i - (places.length - ends.length)];
                return { x, y: used === undefined ? null : used / facts.slots };
            }),
        })),
        x: () => theme.count_axis('decoded token', 1, Math.max(2, facts.tokens)),
        y: () => percent_axis('share of the experts'),
        title: (x) => `up to token ${x}`,
        text: (y) => `${format.percent(y)}, ${format.number(y * facts.slots)} experts`,
        notes: () =>
            chosen.map(
                ({ tokens, slots }) =>
                    `${tokens === 1 ? 'One token' : `${tokens} tokens`}: ` +
                    `${format.number(Math.min(...slots))} to ${format.number(Math.max(...slots))} experts.`,
            ),
    });
}

function layer_figure(facts) {
    const points = (pick) => facts.layer_list.map((layer, x) => ({ x, y: layer.total ? pick(layer) : null }));
    return curves({
        label: 'How each layer uses its experts',
        lines: [
            {
                label: 'spread (100 %: it uses all experts alike)',
                points: points(({ effective }) => effective / facts.experts),
            },
            {
                label: 'repeats (experts that the token before used, too)',
                points: points(({ repeat }) => repeat),
            },
        ],
        x: () => theme.count_axis('layer', 0, Math.max(1, facts.layers - 1)),
        y: () => percent_axis('share'),
        title: (x) => `layer ${x}`,
        text: format.percent,
        notes: () => {
            const used = facts.layer_list
                .map((layer, index) => ({ ...layer, index }))
                .filter(({ total }) => total);
            const by_spread = used.slice().sort((a, b) => a.effective - b.effective);
            const [most, least] = [by_spread[0], by_spread[by_spread.length - 1]];
            return [`Layer ${most.index} concentrates most, layer ${least.index} least.`];
        },
    });
}
