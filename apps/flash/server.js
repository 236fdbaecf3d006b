// Speaks with the server: its state, its events, its settings. docs/flash.md is the contract.
'use strict';

/** The server wants a key, or another one. */
class KeyNeeded extends Error {}

const server = (() => {
    const key_name = 'sluice-api-key';

    // Whoever opens the page for somebody can hand the key over behind a '#', which no browser sends anywhere.
    const handed_over = /^#key=(.+)$/.exec(location.hash);
    if (handed_over) {
        sessionStorage.setItem(key_name, decodeURIComponent(handed_over[1]));
        history.replaceState(null, '', location.pathname + location.search);
    }

    const has_key = () => sessionStorage.getItem(key_name) !== null;
    const set_key = (key) => sessionStorage.setItem(key_name, key);

    /** The sentence in an error's body, or its status. */
    async function reason_of(response) {
        try {
            return (await response.json()).error.message;
        } catch {
            return `the server answered ${response.status}`;
        }
    }

    async function ask(path, options) {
        const key = sessionStorage.getItem(key_name);
        const headers = { ...(options && options.headers) };
        if (key !== null) {
            headers.Authorization = `Bearer ${key}`;
        }
        const response = await fetch(path, { cache: 'no-store', ...options, headers });
        if (response.status === 401) {
            throw new KeyNeeded(await reason_of(response));
        }
        if (!response.ok) {
            throw new Error(await reason_of(response));
        }
        return response;
    }

    const state = async (signal) => (await ask('flash/state', { signal })).json();

    /** Of a router: its models, as llama.cpp lists them. */
    const router_models = async (signal) => (await (await ask('models', { signal })).json()).data;

    async function post(path, body) {
        const response = await ask(path, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(body),
        });
        return response.json();
    }

    /**
     * Calls `received` with each event's data, until the stream ends or `signal` ends it. By fetch, for an
     * EventSource cannot send a key.
     */
    async function events(signal, received) {
        const response = await ask('flash/events', { signal });
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        for (;;) {
            const { value, done } = await reader.read();
            if (done) {
                return;
            }
            const messages = (text + value).split('\n\n');
            text = messages.pop();
            for (const message of messages) {
                const lines = message.split('\n').filter((line) => line.startsWith('data:'));
                if (lines.length) {
                    received(JSON.parse(lines.map((line) => line.slice(5)).join('\n')));
                }
            }
        }
    }

    return {
        has_key,
        set_key,
        router_models,
        state,
        events,
        change: (model, values) => post('flash/settings', { model, values }),
        trim: () => post('flash/trim', {}),
    };
})();
