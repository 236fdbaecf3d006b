// What the tests of `sluice serve` through its clients share. Variables: SERVER_PROGRAM, SERVED_MODEL (a GGUF file with
// experts), TEMPLATES (llama.cpp's folder of chat templates), ALTERED_MODEL (the program of that name) and
// CLIENT_LIBRARIES (a folder with node_modules).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';

const require = createRequire(process.env.CLIENT_LIBRARIES + '/');
export const { OpenAI } = require('openai');
export const { Anthropic } = require('@anthropic-ai/sdk');

const free_port = () =>
    new Promise((resolve) => {
        const probe = createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });

export const templates = process.env.TEMPLATES;

/// A server that runs until stop(), which resolves to its exit code. Without -m or the like it has SERVED_MODEL.
export async function start(...options) {
    const model = options.some((word) => ['-m', '-hf', '--models-dir'].includes(word)) ? [] : ['-m', process.env.SERVED_MODEL];
    const port = await free_port();
    const child = spawn(process.env.SERVER_PROGRAM, [
        'serve', ...model, '--port', `${port}`, '-t', '1', '--no-hot-set', '--no-repack', ...options]);
    let log = '';
    child.stderr.on('data', (text) => (log += text));
    const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal)));
    const url = `http://127.0.0.1:${port}`;
    for (let tries = 0; ; ++tries) {
        const up = await fetch(url + '/health').then((answer) => answer.ok, () => false);
        if (up) break;
        assert.ok(tries < 600 && child.exitCode === null, `the server did not come up:\n${log}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const ask = async (path, body, headers = {}) => {
        const answer = await fetch(url + path, {
            method: body ? 'POST' : 'GET', body: body && JSON.stringify(body), headers });
        return { status: answer.status, body: await answer.json() };
    };
    const stop = (signal = 'SIGTERM') => (child.kill(signal), exited);
    return { url, ask, stop, log: () => log };
}

export const streamed = ['--moe-stream', '--cache-mb', '4'];
export const greedy = { temperature: 0, max_tokens: 16 };
export const say = (content) => [{ role: 'user', content }];
export const prompts = ['Once upon a time', 'There was once a poor woodcutter', 'The king said to his', 'In the forest'];
export const complete = (server, prompt, more = {}) =>
    server.ask('/completion', { prompt, n_predict: 24, temperature: 0, return_tokens: true, cache_prompt: false, ...more });
