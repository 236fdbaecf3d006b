// Charts that move: made once, given new points with each event.
'use strict';

const live_charts = (() => {
    const line = (label, colour, value, more) => ({ label, colour, value, ...more });
    const percent_scale = { min: 0, max: 1, ticks: (tick) => format.percent(tick), step: 0.25 };

    /** The unit that suits the largest point of all lines. */
    const unit_of = (lines, scale) => {
        const most = Math.max(
            0,
            ...lines.flatMap(({ value }) => series.points(value).map(({ y }) => y ?? 0)),
        );
        return scale === 'bytes' ? format.byte_unit(most) : ['', 1];
    };

    /** What a part took of each token lately. */
    const token_time = (field) => {
        const tokens = series.sum('tokens') + series.sum('prompt_tokens');
        return tokens > 0 ? `, ${format.milliseconds(series.sum(field) / tokens)} a token` : '';
    };

    const about_lines = [
        {
            title: 'Tokens per second',
            lines: () => [line('tokens/s', 0, measures.tokens_per_second)],
            text: (y) => format.rate(y),
            scale: {},
        },
        {
            title: 'Where the time goes',
            stacked: true,
            lines: () =>
                time_parts.map(({ field, label }, index) =>
                    line(label, index, measures.part_share(field), { part: true, field }),
                ),
            text: (y) => format.percent(y),
            scale: percent_scale,
        },
        {
            title: 'Cache hits',
            lines: () => [line('slices found in the cache', 2, measures.hit_rate)],
            text: (y) => format.percent(y),
            scale: percent_scale,
        },
        {
            title: 'Reading',
            bytes: 'per second',
            lines: () => [
                line('read', 0, measures.read_rate),
                line('device, while busy', 1, measures.device_rate),
            ],
            text: (y) => (y === null ? format.unmeasured : `${format.bytes(y)}/s`),
            scale: {},
        },
        {
            title: 'Memory',
            bytes: '',
            lines: (state) => [
                line('resident', 0, ({ resident_bytes }) => resident_bytes),
                line('expert cache', 2, ({ cache_held_bytes }) => cache_held_bytes),
                ...(state.memory.ceiling_bytes === null
                    ? []
                    : [line('ceiling', 1, () => state.memory.ceiling_bytes, { limit: true })]),
            ],
            text: (y) => format.bytes(y),
            scale: {},
        },
    ];

    const colour_of = ({ colour, part }) =>
        part ? theme.part_colour(colour) : theme.run_style(colour).colour;

    function dataset(about, line_shown, place) {
        const { label, part, limit } = line_shown;
        const look = colour_of(line_shown);
        return {
            label,
            data: [],
            borderColor: part ? theme.variable('background') : look,
            backgroundColor: look,
            borderWidth: part ? 0.5 : limit ? 1.5 : 2,
            borderDash: limit ? [6, 4] : [],
            fill: about.stacked ? (place === 0 ? 'origin' : '-1') : false,
            pointRadius: 0,
            pointHitRadius: 8,
            pointStyle: part ? 'rect' : 'line',
            tension: 0,
        };
    }

    /** What a line is called, behind a spot of its colour; its value is put in later. */
    function key_of(line) {
        const spot = element('i', {});
        spot.style.background = colour_of(line);
        return element('span', {}, spot, `${line.label} `, element('b', {}));
    }

    const seconds_axis = () =>
        theme.axis('', {
            type: 'linear',
            beginAtZero: false,
            min: -series.seconds,
            max: 0,
            title: { display: false },
            ticks: {
                color: theme.variable('soft'),
                maxRotation: 0,
                stepSize: 30,
                callback: (tick) => (tick === 0 ? 'now' : `${tick} s`),
            },
        });

    function value_axis({ scale, stacked }) {
        const { ticks, step, ...rest } = scale;
        const base = theme.axis('', { stacked: Boolean(stacked), title: { display: false }, ...rest });
        const own = ticks ? { callback: ticks, stepSize: step, autoSkip: false } : { maxTicksLimit: 6 };
        return { ...base, ticks: { ...base.ticks, ...own } };
    }

    /** A figure that shows `about`; `show(state)` brings it up to date. */
    function figure(about) {
        const canvas = element('canvas', { role: 'img' });
        const heading = element('h3', {}, about.title);
        const legend = element('figcaption', { class: 'legend', 'aria-hidden': 'true' });
        const made = element('figure', {}, heading, element('div', { class: 'chart' }, canvas), legend);
        let chart = null;
        let size = 1;

        function begin(lines) {
            if (chart) {
                chart.destroy();
            }
            const more = { interaction: { mode: 'nearest', axis: 'x', intersect: false } };
            const callbacks = {
                title: (items) => (items.length ? `${format.number(-items[0].raw.x)} s ago` : ''),
                label: (item) =>
                    ` ${item.dataset.label}: ${about.text(item.raw.y === null ? null : item.raw.y * size)}`,
            };
            const options = theme.options({ x: seconds_axis(), y: value_axis(about) }, callbacks, more);
            options.plugins.legend.display = false;
            legend.replaceChildren(...(lines.length > 1 ? lines.map(key_of) : []));
            chart = new Chart(canvas, {
                type: 'line',
                data: { datasets: lines.map((each, place) => dataset(about, each, place)) },
                options,
            });
        }

        made.show = (state, anew) => {
            const lines = about.lines(state);
            if (anew || !chart || chart.data.datasets.length !== lines.length) {
                begin(lines);
            }
            const [unit, unit_size] = unit_of(lines, about.bytes === undefined ? '' : 'bytes');
            size = unit_size;
            lines.forEach(({ value }, i) => {
                chart.data.datasets[i].data = series
                    .points(value)
                    .map(({ x, y }) => ({ x, y: y === null ? null : y / size }));
            });
            if (about.bytes !== undefined) {
                heading.textContent = `${about.title}, ${unit}${about.bytes ? ` ${about.bytes}` : ''}`;
            }
            chart.update('none');
            const newest = series.newest();
            const texts = lines.map(({ value, field }) =>
                newest ? about.text(value(newest)) + (field ? token_time(field) : '') : format.unmeasured,
            );
            [...legend.children].forEach((key, i) => (key.lastChild.textContent = texts[i]));
            const sentence = lines.map(({ label }, i) => `${label}: ${texts[i]}`).join(', ');
            canvas.setAttribute('aria-label', `${about.title}. ${sentence}.`);
        };
        return made;
    }

    const figures = about_lines.map(figure);
    document.getElementById('charts').append(...figures);
    return { show: (state, anew) => figures.forEach((each) => each.show(state, anew)) };
})();
