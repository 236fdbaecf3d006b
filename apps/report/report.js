// The page of `sluice report`.
'use strict';

function add_summary(runs) {
    const page = document.getElementById('page');
    const warnings = runs.flatMap((run) => run.marks.map(({ why }) => `${run.name} ${why}`));
    if (warnings.length) {
        page.append(element('div', { class: 'warnings', role: 'note' }, bullets(warnings)));
    }
    const generated = runs
        .filter(({ facts }) => facts.rate !== null)
        .sort((a, b) => b.facts.rate - a.facts.rate);
    if (generated.length > 1) {
        const [fastest, slowest] = [generated[0], generated[generated.length - 1]];
        const times = format.number(fastest.facts.rate / slowest.facts.rate);
        page.append(
            paragraph(
                `Fastest: ${fastest.label}, ${format.rate(fastest.facts.rate)}; ` +
                    `that is ${times} times the speed of the slowest, ${slowest.label}.`,
            ),
        );
    }
    page.append(bullets(runs.map((run) => `${run.label}: ${sentence_about(run)}`)));
}

/** All charts. They are of generated tokens; a prompt's ubatches are of another size and would dwarf them. */
function add_charts(runs) {
    const most_tokens = Math.max(...runs.map(({ decode }) => decode.length));
    if (most_tokens === 0) {
        section('Charts', 'No run has generated a token, so there is nothing to draw.');
        return;
    }
    const choices = averaging_choices(most_tokens);
    averaging.tokens = choices.find((tokens) => most_tokens / tokens <= 128) || choices[choices.length - 1];
    const changed = (value) => {
        averaging.tokens = Number(value);
        theme.redraw_all();
    };
    const control = choice(
        'Each point is the mean of',
        choices.map((n) => [n, format.count(n, 'token')]),
        averaging.tokens,
        changed,
    );
    const with_tokens = runs.filter(({ decode }) => decode.length);
    const timed = present_parts(with_tokens).length > 0;
    const figures = {
        speed: [
            line_figure({
                runs,
                label: 'Speed, tokens per second',
                value: rate_of,
                text: format.rate,
                axis: () => theme.axis('tokens/s', { grace: '5%' }),
            }),
        ],
        bars: timed ? [part_bars(with_tokens)] : [],
        areas: timed ? with_tokens.map((run) => part_areas(run, with_tokens)) : [],
        hits: [
            line_figure({
                runs,
                label: 'Hit rate',
                value: hit_rate_of,
                text: format.percent,
                axis: () =>
                    theme.axis('hits', {
                        max: 1,
                        ticks: { ...theme.axis('').ticks, callback: format.percent },
                    }),
            }),
        ],
        reads: read_figures(runs),
        memory: [byte_figure({ runs, label: 'Resident memory', what: 'resident', value: resident_of })],
    };
    const grid = (list) => element('div', { class: 'grid' }, ...list);
    const nothing = (list, text) => (list.length ? [] : [paragraph(text)]);

    section(
        'Speed',
        'Tokens generated per second: the higher, the better.',
        element('div', { class: 'controls' }, control),
        ...figures.speed,
    );
    section(
        'Where the time goes',
        'Milliseconds of a token, split into what they went to. The bars are means of whole runs; ' +
            'the charts below show how it went, all on one scale.',
        ...figures.bars,
        grid(figures.areas),
        ...nothing(figures.bars, 'No run has measured it.'),
    );
    section(
        'Hit rate',
        'Share of the expert slices asked for that were in the cache or on their way.',
        ...figures.hits,
    );
    section(
        'Bytes read',
        'What each token read from storage.',
        grid(figures.reads),
        ...nothing(figures.reads, 'No run has read anything while generating.'),
    );
    section('Memory', 'Resident memory of the whole process after each token.', ...figures.memory);
    draw_figures(Object.values(figures).flat());
}

function show_report() {
    const data = page_data();
    const runs = data.runs.map(parse_run);
    const title = runs.length === 1 ? `Sluice: ${runs[0].name}` : `Sluice: ${runs.length} runs compared`;
    document.title = title;
    document.querySelector('h1').textContent = title;
    add_summary(runs);
    add_run_table(runs);
    add_charts(runs);
    const sentences = [
        `Made by sluice report ${data.version}.`,
        'Numbers are computed from the rows of the files; those that were not measured read "unmeasured".',
        'Charts are drawn by Chart.js, files are read with Papa Parse (both MIT: the licences are in this file).',
    ];
    document.getElementById('page').append(element('footer', {}, sentences.join(' ')));
}

show_report();
