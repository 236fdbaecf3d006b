// Stands in for `sluice serve`: the files of the panel as built, and its four addresses with made-up numbers.
//   node stand-in.mjs FOLDER [PORT [KEY]]   to look at the page by hand
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import { MadeUp } from './made-up.mjs';

const files = {
    '/flash': 'text/html; charset=utf-8',
    '/flash-worker.js': 'text/javascript; charset=utf-8',
    '/flash.webmanifest': 'application/manifest+json',
    '/flash-icon-192.png': 'image/png',
    '/flash-icon-512.png': 'image/png',
};

const as_event = ({ models, ...state }) =>
    `data: ${JSON.stringify({ ...state, models: models.map(({ history, ...model }) => model) })}\n\n`;

async function body_of(request) {
    const parts = [];
    for await (const part of request) {
        parts.push(part);
    }
    return JSON.parse(Buffer.concat(parts).toString());
}

/** Listens on a free port of this machine. `seen` tells what was asked for. */
export async function start({ folder, port = 0, key = null, pace_ms = 1000 }) {
    const model = new MadeUp();
    const seen = { paths: [], settings: [], trims: 0, open: 0 };
    const json = (response, status, value) =>
        response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8' }).end(JSON.stringify(value));
    const refuse = (response, code, message) => json(response, code, { error: { code, message, type: 'error' } });

    function change(response, { values }) {
        for (const [name, value] of Object.entries(values)) {
            const setting = model.settings.find((each) => each.name === name);
            if (!setting || setting.apply !== 'now') {
                return refuse(response, 400, `${name} needs a restart`);
            }
            if (name === 'cache-mb' && value === 1313) {
                return refuse(response, 400, 'the cache cannot have an unlucky size');
            }
            model.set(name, value);
        }
        seen.settings.push(values);
        return json(response, 200, { settings: model.settings });
    }

    function stream(request, response) {
        ++seen.open;
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        const tick = () => response.write(as_event(model.next()));
        tick();
        const timer = setInterval(tick, pace_ms);
        response.on('close', () => {
            --seen.open;
            clearInterval(timer);
        });
    }

    async function answer(request, response) {
        const path = request.url.split('?')[0];
        seen.paths.push(path);
        if (files[path]) {
            const bytes = await readFile(`${folder}${path}`);
            return response.writeHead(200, { 'Content-Type': files[path], 'Cache-Control': 'no-cache' }).end(bytes);
        }
        if (key !== null && request.headers.authorization !== `Bearer ${key}`) {
            return refuse(response, 401, 'Invalid API Key');
        }
        switch (`${request.method} ${path}`) {
            case 'GET /flash/state':
                return json(response, 200, model.state());
            case 'GET /flash/events':
                return stream(request, response);
            case 'POST /flash/settings':
                return change(response, await body_of(request));
            case 'POST /flash/trim':
                await body_of(request);
                ++seen.trims;
                return json(response, 200, model.trim());
            default:
                return refuse(response, 404, 'File Not Found');
        }
    }

    const server = createServer((request, response) =>
        answer(request, response).catch((error) => refuse(response, 500, error.message)),
    );
    await new Promise((listening) => server.listen(port, '127.0.0.1', listening));
    const stop = () =>
        new Promise((closed) => {
            server.close(closed);
            server.closeAllConnections();
        });
    return { address: `http://127.0.0.1:${server.address().port}`, seen, stop };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
    const [, , folder, port, key] = process.argv;
    const { address } = await start({ folder, port: Number(port ?? 0), key: key ?? null });
    console.log(`${address}/flash`);
}
