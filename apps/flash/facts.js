// Numbers in words: the tiles at the top, dense weights, row tables, what the run settled on.
'use strict';

const facts = (() => {
    const place = (id) => document.getElementById(id);

    /** Puts [term, value, more] triples into a list; keeps what is there, so that a reader's place stays. */
    function put(list, entries) {
        list.replaceChildren(
            ...entries.map(([term, value, more]) =>
                element(
                    'div',
                    {},
                    element('dt', {}, term),
                    element('dd', {}, value, ...(more ? [element('small', {}, more)] : [])),
                ),
            ),
        );
    }

    const last = (measure) => {
        const newest = series.newest();
        return newest ? measure(newest) : null;
    };

    /** What a token took lately, part by part. */
    function token_times() {
        const tokens = series.sum('tokens') + series.sum('prompt_tokens');
        if (tokens === 0) {
            return format.unmeasured;
        }
        const waits = (series.sum('expert_wait_ms') + series.sum('row_wait_ms')) / tokens;
        return `${format.milliseconds(series.sum('compute_ms') / tokens)} computing, ${format.milliseconds(waits)} waiting`;
    }

    function tiles(state, model) {
        const rate = last(measures.read_rate);
        const prompt = last(measures.prompt_tokens_per_second);
        const { resident_bytes, ceiling_bytes } = state.memory;
        put(place('tiles'), [
            [
                'speed',
                last(({ graphs }) => graphs) === 0 ? 'idle' : format.rate(last(measures.tokens_per_second)),
                prompt > 0 ? `prompt: ${format.rate(prompt)}` : token_times(),
            ],
            [
                'cache hits',
                last(measures.hit_rate) === null ? 'none asked' : format.percent(last(measures.hit_rate)),
                `${format.bytes(model.cache.held_bytes)} of ${format.bytes(model.cache.limit_bytes)}`,
            ],
            [
                'reading',
                rate === null ? format.unmeasured : `${format.bytes(Math.round(rate))}/s`,
                `${format.bytes(model.totals.expert_read_bytes + model.totals.row_read_bytes)} in all`,
            ],
            [
                'memory',
                format.bytes(resident_bytes),
                ceiling_bytes === null ? 'no ceiling' : `ceiling: ${format.bytes(ceiling_bytes)}`,
            ],
            ['waiting for storage', format.percent(last(measures.waiting_share)), 'of the time'],
        ]);
    }

    function dense(model) {
        const { mode, bytes, mapped_bytes, resident, swapped } = model.dense;
        put(place('dense'), [
            ['held as', mode],
            ['size', format.bytes(bytes)],
            ['mapped from the file', format.bytes(mapped_bytes)],
            ['in memory now', format.percent(resident)],
            ['in swap', format.percent(swapped)],
        ]);
    }

    function rows(model) {
        const about = model.rows;
        if (!about.on) {
            put(place('rows'), [['rows are', 'in memory with their tables']]);
            return;
        }
        put(place('rows'), [
            ['tables off the resident set', format.bytes(about.table_bytes)],
            ['of them in memory', `${format.bytes(about.resident_bytes)} of ${format.bytes(about.window_bytes)}`],
            ['rows gathered', about.rows.toLocaleString('en')],
            ['reads', about.reads.toLocaleString('en')],
            ['read', format.bytes(about.read_bytes)],
            ...(about.read_errors ? [['failed reads', about.read_errors.toLocaleString('en')]] : []),
            ...about.tables.filter(({ streamed }) => !streamed).map(({ name, reason }) => [name, 'in memory', reason]),
        ]);
    }

    function settled(model) {
        if (model.settled.length === 0) {
            place('settled').replaceChildren(paragraph('There was nothing to find out: all of it was given.'));
            return;
        }
        place('settled').replaceChildren(
            element(
                'dl',
                { class: 'facts' },
                ...model.settled.map(({ name, choice: kept, why }) =>
                    element(
                        'div',
                        {},
                        element('dt', {}, name),
                        element('dd', {}, kept, element('small', {}, why)),
                    ),
                ),
            ),
            paragraph(`${format.count(model.tokens_tried, 'token')} tried.`, 'about'),
        );
    }

    function model_line(model) {
        const stays = model.streamed_bytes > 0 ? `, ${format.bytes(model.streamed_bytes)} of experts on storage` : '';
        place('model').replaceChildren(
            element('strong', {}, model.name),
            ` ${format.bytes(model.file_bytes)}, ${model.mode}${stays}`,
            ...(model.lossy ? [' ', element('span', { class: 'badge' }, `lossy: ${model.lossy}`)] : []),
        );
        place('model').title = model.mode_reason;
    }

    return {
        show: (state, model) => {
            model_line(model);
            tiles(state, model);
            dense(model);
            rows(model);
            settled(model);
        },
    };
})();
