// Which experts are in the cache and which were used lately: a row for each layer.
'use strict';

const experts = (() => {
    const levels = 9; // docs/flash.md: '0' to '9' are not in the cache, 'a' to 'j' are
    const where = document.getElementById('heat');
    const canvas = element('canvas', { role: 'img' });
    const frame = element('div', { class: 'chart' }, canvas);
    const legend = element('div', { class: 'colour-bar' });
    const note = element('p', { class: 'about' });
    where.append(legend, frame, note);
    let chart = null;
    let shown = null; // the heat that is drawn
    let group = 1; // experts that share a cell, where there are more than fit

    function grey(share) {
        const dark = theme.scheme() === 'dark';
        const light = dark ? 34 + 90 * share : 232 - 120 * share;
        return `rgb(${[light, light, light].map(Math.round).join(',')})`;
    }

    function shades(colour) {
        const made = element('canvas', { width: 64, height: 1, 'aria-hidden': 'true' });
        const context = made.getContext('2d');
        for (let i = 0; i < 64; ++i) {
            context.fillStyle = colour(i / 63);
            context.fillRect(i, 0, 1, 1);
        }
        return made;
    }

    const show_scales = () =>
        legend.replaceChildren(
            'in the cache: unused',
            shades(theme.heat_colour),
            'much used; not in it: unused',
            shades(grey),
            'much used',
        );

    /** Of a letter: whether the expert is in the cache, and how much it was used. */
    function cell(letter) {
        const cached = letter >= 'a';
        return { cached, level: letter.charCodeAt(0) - (cached ? 'a' : '0').charCodeAt(0) };
    }

    /** The most used expert of those that share a cell. */
    function cell_at(row, column) {
        const letters = shown.layers[row].cells.slice(column * group, (column + 1) * group);
        return [...letters]
            .map(cell)
            .reduce((best, each) => (best === null || each.level > best.level ? each : best), null);
    }

    const used_text = (level) =>
        level === 0 ? 'not used lately' : level === 1 ? 'used once' : `used ${2 ** (level - 1)} times or more`;

    function text(row, column) {
        const layer = shown.layers[row];
        const at = cell_at(row, column);
        const first = column * group;
        const last = Math.min(first + group, layer.experts) - 1;
        if (at === null) {
            return `layer ${row}`;
        }
        const name = first === last ? `expert ${first}` : `experts ${first} to ${last}`;
        return `layer ${row}, ${name}\n${used_text(at.level)}, ${at.cached ? 'in the cache' : 'not in the cache'}\nlayer: ${layer.cached} of ${layer.experts} in the cache`;
    }

    const columns = () => Math.ceil(Math.max(...shown.layers.map((layer) => layer.experts)) / group);

    function begin() {
        if (chart) {
            chart.destroy();
        }
        show_scales();
        const most = Math.max(...shown.layers.map((layer) => layer.experts));
        group = Math.max(1, Math.ceil(most / Math.max(1, (frame.clientWidth - 48) / 2)));
        const count = columns();
        const rows = shown.layers.length;
        frame.style.height = `${Math.min(30, 4 + Math.max(rows * 0.35, 6))}rem`;
        const grid = {
            rows,
            columns: count,
            colour: (row, column) => {
                const at = cell_at(row, column);
                return at === null
                    ? theme.variable('background')
                    : (at.cached ? theme.heat_colour : grey)(at.level / levels);
            },
        };
        const places = (title, last, more) =>
            theme.count_axis(title, -0.5, last + 0.5, { grid: { display: false }, ...more });
        const options = theme.options(
            { x: places('expert', count - 1), y: places('layer', rows - 1, { reverse: true }) },
            {},
            { events: [] },
        );
        options.plugins.legend.display = false;
        options.scales.x.ticks.callback = (tick) => tick * group;
        chart = new Chart(canvas, { type: 'scatter', data: { datasets: [] }, options, plugins: [heat_cells(grid)] });
    }

    add_tip(canvas, () => chart, text);

    function show(heat, anew) {
        where.hidden = heat.layers.length === 0;
        if (where.hidden) {
            return;
        }
        const same_shape =
            shown &&
            shown.layers.length === heat.layers.length &&
            shown.layers.every(({ experts }, i) => experts === heat.layers[i].experts);
        shown = heat;
        if (anew || !chart || !same_shape) {
            begin();
        } else {
            chart.update('none');
        }
        const total = (field) => heat.layers.reduce((sum, layer) => sum + layer[field], 0);
        note.textContent =
            `${format.number(total('cached'))} of ${format.number(total('experts'))} experts are in the cache, ` +
            `${format.number(total('used'))} were used lately: each use weighs half after ${format.seconds(heat.half_life_ms / 1000)} of computing.`;
        canvas.setAttribute('aria-label', `Experts by layer. ${note.textContent}`);
    }

    return { show };
})();
