// A heat map on Chart.js's axes: one cell for each column and row. Chart.js has no such chart, and one element a
// cell, as its plugins have it, takes seconds where there are tens of thousands.
'use strict';

/** Fills the cells of `grid` between the axes; edges on whole pixels, so that no seams show. */
const heat_cells = (grid) => ({
    id: 'heat-cells',
    beforeDatasetsDraw({ ctx, scales: { x, y } }) {
        const edges = (axis, count) =>
            Array.from({ length: count + 1 }, (_, i) => Math.round(axis.getPixelForValue(i - 0.5)));
        const columns = edges(x, grid.columns);
        const rows = edges(y, grid.rows);
        for (let row = 0; row < grid.rows; ++row) {
            for (let column = 0; column < grid.columns; ++column) {
                ctx.fillStyle = grid.colour(row, column);
                ctx.fillRect(
                    columns[column],
                    rows[row],
                    columns[column + 1] - columns[column],
                    rows[row + 1] - rows[row],
                );
            }
        }
    },
});

/** A small text that follows the pointer or the finger over the cells. */
function add_tip(canvas, chart_now, text) {
    const tip = element('div', { class: 'tip', hidden: '' });
    canvas.parentElement.append(tip);
    const hide = () => {
        tip.hidden = true;
    };
    const show = (event) => {
        const {
            scales: { x, y },
            chartArea: area,
        } = chart_now();
        const box = canvas.getBoundingClientRect();
        const [left, top] = [event.clientX - box.left, event.clientY - box.top];
        if (left < area.left || left >= area.right || top < area.top || top >= area.bottom) {
            hide();
            return;
        }
        tip.textContent = text(Math.round(y.getValueForPixel(top)), Math.round(x.getValueForPixel(left)));
        tip.hidden = false;
        const room = canvas.clientWidth - tip.offsetWidth;
        tip.style.left = `${Math.max(0, Math.min(left + 12, room))}px`;
        tip.style.top = `${Math.max(0, top - tip.offsetHeight - 8)}px`;
    };
    canvas.addEventListener('pointermove', show);
    canvas.addEventListener('pointerdown', show); // a tap moves nothing
    canvas.addEventListener('pointerleave', hide);
}

/** The colours and what they stand for: `text(share)` at both ends and in the middle. */
function colour_bar(text) {
    const canvas = element('canvas', { width: 192, height: 1, 'aria-hidden': 'true' });
    const context = canvas.getContext('2d');
    for (let i = 0; i < 192; ++i) {
        context.fillStyle = theme.heat_colour(i / 191);
        context.fillRect(i, 0, 1, 1);
    }
    return element('div', { class: 'colour-bar' }, text(0), canvas, `${text(1)} (middle: ${text(0.5)})`);
}
