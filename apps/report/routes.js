// The page of `sluice routes`.
'use strict';

function add_summary(facts) {
    const per_token = facts.total / facts.tokens;
    const repeats = facts.repeats.reduce((a, b) => a + b, 0) / facts.total;
    const effective = facts.layers_used.map((layer) => layer.effective);
    const of_all = (slots) => format.percent(slots / facts.slots);
    const served = (share) => format.percent(served_by(facts, share));
    const idle_layers = facts.layers - facts.layers_used.length;
    const sentences = [
        `${format.count(facts.tokens, 'decoded token')}, ${facts.layers} layers of ${facts.experts} experts` +
            (idle_layers ? `, ${idle_layers} of which route nothing` : '') +
            `; a token uses ${format.number(per_token)} of all ${format.number(facts.slots)} experts ` +
            `(${of_all(per_token)}).`,
        `The most used tenth of the experts serves ${served(0.1)} of all uses, ` +
            `the most used quarter ${served(0.25)}, the most used half ${served(0.5)}; ` +
            (facts.unused ? `${of_all(facts.unused)} were never used.` : 'each was used at least once.'),
        `A layer's uses are spread as if it had ${format.number(Math.min(...effective))} to ` +
            `${format.number(Math.max(...effective))} equally used experts out of ${facts.experts}.`,
    ];
    if (facts.tokens > 1) {
        sentences.push(`${format.percent(repeats)} of uses are of experts that the token before used as well.`);
    }
    const wide = facts.windows.filter(({ tokens }) => tokens > 1);
    if (wide.length) {
        const some = [wide[Math.floor((wide.length - 1) / 2)], wide[wide.length - 1]].filter(
            (window, i, all) => all.indexOf(window) === i,
        );
        const used = some.map(
            ({ tokens, mean_slots }) => `${tokens} tokens in a row use ${of_all(mean_slots)} of the experts`,
        );
        sentences.push(`On average, ${format.list(used)}.`);
    }
    if (facts.prefill_tokens > 0) {
        sentences.push(
            `The prompt, which is in none of the charts, used ${of_all(facts.prefilled_slots)} of the experts.`,
        );
    }
    document.getElementById('page').append(bullets(sentences));
}

function add_charts(facts) {
    const state = { order: 'number' };
    const heat = heat_figure(facts, state);
    const order = choice(
        'Experts in the order of',
        [
            ['number', 'their numbers'],
            ['use', 'their use'],
        ],
        state.order,
        (value) => {
            state.order = value;
            heat.draw();
        },
    );
    const share = (part) => format.percent((part * part * facts.most) / facts.tokens);
    section(
        'Experts by layer',
        'How many of the tokens use each expert. A streak down a column means nothing: experts of different layers ' +
            'have only their numbers in common.',
        element('div', { class: 'controls' }, order),
        colour_bar(share),
        heat,
    );
    const figures = [
        heat,
        concentration_figure(facts),
        growth_figure(facts),
        time_figure(facts),
        layer_figure(facts),
    ];
    section(
        'How concentrated',
        'The further the curve is above the straight line, the more a small cache of the right experts can serve.',
        figures[1],
    );
    section(
        'Working set',
        'How many different experts tokens in a row use: what a cache must hold to keep them all.',
        figures[2],
    );
    section(
        'Working set over time',
        'The same along the trace: steps show where the text, and with it the experts, changed.',
        figures[3],
    );
    section('Layers', "Low spread and many repeats make a layer's experts easy to keep.", figures[4]);
    draw_figures(figures);
}

function show_routes() {
    const data = page_data();
    const title = `Sluice: expert use in ${data.name}`;
    document.title = title;
    document.querySelector('h1').textContent = title;
    const facts = analyse(data);
    add_summary(facts);
    add_charts(facts);
    document
        .getElementById('page')
        .append(
            element(
                'footer',
                {},
                `Made by sluice routes ${data.version}. ` +
                    "Charts are drawn by Chart.js (MIT; the page's source has its licence).",
            ),
        );
}

show_routes();
