// Colours and the looks that all charts share, in light, in dark and on paper.
'use strict';

const theme = (() => {
    const dark_screen = matchMedia('(prefers-color-scheme: dark)');
    const root = document.documentElement;
    const redraws = [];

    // Okabe and Ito's palette, told apart with every kind of colour vision; lighter or darker where the
    // background wants it. Runs beyond its end get the same colours with other dashes.
    const run_colours = {
        light: ['#0072b2', '#d55e00', '#008060', '#b0508a', '#3a9ad9', '#b37a00', '#444444'],
        dark: ['#56b4e9', '#ff8c42', '#2fd3a0', '#e69bc8', '#9ad4ff', '#f0c040', '#d0d0d0'],
    };
    const run_dashes = [[], [7, 3], [2, 2], [10, 3, 2, 3], [12, 4], [4, 2, 1, 2], [1, 3]];
    // Paul Tol's "bright", in the order in which neighbours differ most in lightness, too.
    const part_colours = {
        light: ['#4477aa', '#ee6677', '#ccbb44', '#228833', '#66ccee', '#bbbbbb'],
        dark: ['#5a94d0', '#ee6677', '#d6c552', '#3aa84d', '#7ad6f5', '#8a8a8a'],
    };
    // Viridis, as nine points of it.
    const viridis = [
        '#440154',
        '#472d7b',
        '#3b528b',
        '#2c728e',
        '#21918c',
        '#28ae80',
        '#5ec962',
        '#addc30',
        '#fde725',
    ].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

    const is_printing = () => root.classList.contains('printing');
    const scheme = () => (dark_screen.matches && !is_printing() ? 'dark' : 'light');
    const variable = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

    /** CSS colour of a share from 0 to 1. */
    function heat_colour(share) {
        const place = Math.min(Math.max(share, 0), 1) * (viridis.length - 1);
        const low = Math.min(Math.floor(place), viridis.length - 2);
        const mixed = viridis[low].map((part, i) =>
            Math.round(part + (place - low) * (viridis[low + 1][i] - part)),
        );
        return `rgb(${mixed.join(',')})`;
    }

    function run_style(index) {
        const colours = run_colours[scheme()];
        const round = Math.floor(index / colours.length);
        return {
            colour: colours[index % colours.length],
            dash: run_dashes[(index + round) % run_dashes.length],
        };
    }

    function axis(title, options) {
        return {
            title: { display: true, text: title, color: variable('text') },
            ticks: { color: variable('soft'), maxRotation: 0, autoSkipPadding: 12 },
            grid: { color: variable('line') },
            border: { color: variable('line') },
            beginAtZero: true,
            ...options,
        };
    }

    /** An axis of whole numbers from `min` to `max`. */
    function count_axis(title, min, max, more) {
        const base = axis(title);
        const ticks = { ...base.ticks, precision: 0, includeBounds: false };
        return { ...base, type: 'linear', beginAtZero: false, min, max, ticks, ...more };
    }

    /** Samples of the lines with their dashes, which Chart.js leaves out beside symbols of points. */
    function legend_labels() {
        const usual = Chart.defaults.plugins.legend.labels.generateLabels;
        const generateLabels = (chart) =>
            usual(chart).map((item) => {
                const { borderDash } = chart.data.datasets[item.datasetIndex];
                return { ...item, lineDash: borderDash || [] };
            });
        return { color: variable('text'), usePointStyle: true, pointStyleWidth: 32, generateLabels };
    }

    /** What charts have in common; `scales` as Chart.js wants it, `callbacks` those of its tooltip. */
    function options(scales, callbacks, more) {
        return {
            animation: false,
            responsive: true,
            maintainAspectRatio: false,
            parsing: false,
            devicePixelRatio: is_printing() ? 2 : window.devicePixelRatio,
            interaction: { mode: 'index', intersect: false },
            scales,
            ...more,
            plugins: {
                legend: { position: 'bottom', labels: legend_labels() },
                tooltip: { callbacks, boxPadding: 4 },
                ...(more && more.plugins),
            },
        };
    }

    /** Calls `redraw` now, and again whenever colours change. */
    function drawn_by(redraw) {
        redraws.push(redraw);
        redraw();
    }

    const redraw_all = () => redraws.forEach((redraw) => redraw());

    let opened = [];
    function before_print() {
        root.classList.add('printing');
        opened = [...document.querySelectorAll('details:not([open])')];
        opened.forEach((details) => {
            details.open = true;
        });
        redraw_all();
    }
    function after_print() {
        root.classList.remove('printing');
        opened.forEach((details) => {
            details.open = false;
        });
        redraw_all();
    }
    dark_screen.addEventListener('change', redraw_all);
    addEventListener('beforeprint', before_print);
    addEventListener('afterprint', after_print);

    return {
        heat_colour,
        run_style,
        axis,
        count_axis,
        options,
        drawn_by,
        redraw_all,
        scheme,
        variable,
        part_colour: (index) => part_colours[scheme()][index],
    };
})();
