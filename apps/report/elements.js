// Pieces of the page. Text from files only ever becomes text: nothing here takes markup.
'use strict';

/** Makes an element: `attributes` by name, children are elements or text. */
function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

const paragraph = (text, look) => element('p', look ? { class: look } : {}, text);
const bullets = (texts, look) =>
    element('ul', look ? { class: look } : {}, ...texts.map((text) => element('li', {}, text)));

/** The data that the program put into the page. */
const page_data = () => JSON.parse(document.getElementById('data').textContent);

/** A heading, a sentence on what is shown, and what `content` holds. Ends up on the page. */
function section(title, about, ...content) {
    const made = element('section', {}, element('h2', {}, title), paragraph(about, 'about'), ...content);
    document.getElementById('page').append(made);
    return made;
}

/**
 * A chart of Chart.js with its caption. `config()` gives Chart.js's configuration, anew for each drawing, and
 * `notes()` says in sentences what the chart shows, for people who cannot see it.
 */
function chart_figure({ title, label, height, config, notes }) {
    const canvas = element('canvas', { role: 'img' });
    const frame = element('div', { class: 'chart' }, canvas);
    const caption = element('figcaption', {});
    const figure = element('figure', {}, ...(title ? [element('h3', {}, title)] : []), frame, caption);
    if (height) {
        frame.style.height = height;
    }
    let chart = null;
    figure.draw = () => {
        if (chart) {
            chart.destroy();
        }
        chart = new Chart(canvas, config());
        const sentences = notes();
        canvas.setAttribute('aria-label', `${label}. ${sentences.join(' ')}`);
        caption.replaceChildren(bullets(sentences, 'notes'));
    };
    return figure;
}

/** Draws figures once they are on the page, and whenever colours change. */
function draw_figures(figures) {
    theme.drawn_by(() => figures.forEach((figure) => figure.draw()));
}

/** A labelled choice: `choices` are [value, text]; `changed(value)` is called for another one. */
function choice(label, choices, chosen, changed) {
    const select = element('select', {}, ...choices.map(([value, text]) => element('option', { value }, text)));
    select.value = chosen;
    select.addEventListener('change', () => changed(select.value));
    return element('label', {}, `${label} `, select);
}

// A page that fails says so, rather than to look as if that were all.
addEventListener('error', (event) => {
    const sentence = `This page could not be drawn to its end: ${event.message}`;
    document.getElementById('page').prepend(element('p', { class: 'warnings', role: 'alert' }, sentence));
});
