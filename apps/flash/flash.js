// Keeps the page up to date: connects, asks for the key where one is wanted, and connects again.
'use strict';

(() => {
    const place = (id) => document.getElementById(id);
    let state = null; // what the server said last
    let chosen = 0; // the model that is shown
    let stream = null; // aborts the events that are being received
    let pause_ms = 1000;

    const model_now = () => state.models[Math.min(chosen, state.models.length - 1)];

    function say(text, look) {
        place('connection').textContent = text;
        place('connection').className = look;
    }

    /** The models of a router, each with the panel that its own process has. */
    async function show_router(signal) {
        place('router').hidden = !state.router;
        if (!state.router) {
            return;
        }
        const models = await server.router_models(signal);
        const entries = models.map(({ id, status }) => {
            const port = (status.args || [])[(status.args || []).indexOf('--port') + 1];
            const is_up = status.value === 'loaded' && Number(port) > 0;
            const name = is_up ? element('a', { href: `http://127.0.0.1:${port}/flash` }, id) : id;
            return element('li', {}, name, `: ${status.value}`);
        });
        place('router-models').replaceChildren(...entries);
    }

    function show_notices() {
        const model = model_now();
        const sentences = [
            ...(state.models.length === 0 && !state.router ? ['No streamed model is loaded in this server.'] : []),
            ...(model && model.last_error ? [`The last graph that failed: ${model.last_error}`] : []),
            ...(model && model.mode === 'resident'
                ? [`The model is in memory, because ${model.mode_reason}: nothing is streamed.`]
                : []),
        ];
        const list = sentences.length ? [bullets(sentences, 'warnings')] : [];
        const old = place('notices').textContent;
        if (old !== sentences.join('')) {
            place('notices').replaceChildren(...list);
        }
    }

    function show_choice() {
        let select = document.querySelector('header select');
        if (state.models.length < 2) {
            if (select) {
                select.parentElement.remove();
            }
            return;
        }
        if (!select) {
            const choices = state.models.map(({ name }, i) => [String(i), name]);
            const made = choice('Model', choices, String(chosen), (value) => {
                chosen = Number(value);
                connect();
            });
            place('connection').after(made);
        }
    }

    function show(anew) {
        show_notices();
        show_choice();
        const model = model_now();
        document.documentElement.classList.toggle('empty', !model);
        if (!model) {
            return;
        }
        facts.show(state, model);
        live_charts.show(state, anew);
        experts.show(model.heat, anew);
        settings.show(state, model);
        place('about').textContent = `Sluice ${state.version}, up for ${format.seconds(state.uptime_ms / 1000)}.`;
    }

    function received(message) {
        state = message;
        const model = model_now();
        if (model) {
            series.add(model.sample);
        }
        say('live', 'live');
        pause_ms = 1000;
        show(false);
    }

    async function follow(signal) {
        say('connecting', '');
        state = await server.state(signal);
        const model = model_now();
        series.begin(model ? [...model.history, model.sample] : []);
        say('live', 'live');
        show(true);
        await show_router(signal);
        await server.events(signal, received);
    }

    /** Follows the server until the page is hidden; then nobody looks. */
    async function connect() {
        if (stream) {
            stream.abort();
        }
        const mine = new AbortController();
        stream = mine;
        try {
            await follow(mine.signal);
        } catch (error) {
            if (mine.signal.aborted) {
                return;
            }
            if (error instanceof KeyNeeded) {
                say('a key is wanted', '');
                ask_for_key();
                return;
            }
            say(`not connected: ${error.message}`, 'lost');
        }
        if (!mine.signal.aborted) {
            setTimeout(() => mine === stream && connect(), pause_ms);
            pause_ms = Math.min(2 * pause_ms, 8000);
        }
    }

    function ask_for_key() {
        place('key-refused').hidden = !server.has_key();
        if (!place('key-dialog').open) {
            place('key-dialog').showModal();
        }
    }

    place('key-form').addEventListener('submit', () => {
        server.set_key(place('key').value);
        place('key').value = '';
        connect();
    });

    document.addEventListener('visibilitychange', () => {
        if (document.hidden) {
            stream.abort();
            say('paused', '');
        } else {
            connect();
        }
    });

    /** Does what may need a key, and asks for it then. */
    async function with_key(work) {
        try {
            return await work();
        } catch (error) {
            if (error instanceof KeyNeeded) {
                ask_for_key();
            }
            throw error;
        }
    }

    settings.on_change(async (name, value) => {
        const model = model_now();
        const answer = await with_key(() => server.change(model.id, { [name]: value }));
        model.settings = answer.settings;
        settings.show(state, model);
    });

    place('trim').addEventListener('click', async () => {
        place('trim').disabled = true;
        try {
            const { freed_bytes } = await with_key(server.trim);
            place('trimmed').textContent = freed_bytes > 0 ? `${format.bytes(freed_bytes)} given back.` : 'There was nothing to give back.';
        } catch (error) {
            place('trimmed').textContent = `Not trimmed: ${error.message}`;
        }
        place('trim').disabled = false;
    });

    theme.drawn_by(() => {
        if (state) {
            show(true);
        }
    });

    if ('serviceWorker' in navigator && isSecureContext) {
        navigator.serviceWorker.register('flash-worker.js', { scope: 'flash' }).catch(() => {
            // The page works without: it cannot be opened while the server is away, that is all.
        });
    }
    connect();
})();
