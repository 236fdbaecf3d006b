// The chat page and the flash panel of the real `sluice serve`, with the embedded model.
//   PANEL_PROGRAM       the program
//   PANEL_TOOLS   folder whose node_modules has playwright-core
//   PANEL_BROWSER      path of Chromium
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const { PANEL_PROGRAM: program, PANEL_TOOLS: tools, PANEL_BROWSER: browser_path } = process.env;
const { chromium } = createRequire(`${tools}/`)('playwright-core');
const MIB = 1024 * 1024;
const model = fileURLToPath(new URL('../../models/tiny-moe-stories-54m-Q4_K_M.gguf', import.meta.url));

let browser;
before(async () => {
    browser = await chromium.launch({ executablePath: browser_path, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
});
after(() => browser?.close());

async function free_port() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    return port;
}

/** Starts the server with these words more, and has `body` use it. Ends it as a service manager would. */
async function with_server(words, body) {
    const port = await free_port();
    const address = `http://127.0.0.1:${port}`;
    const child = spawn(program, ['serve', '--port', `${port}`, '--moe-stream', '--cache-mb', '12', '-c', '2048', ...words]);
    let said = '';
    child.stderr.on('data', (text) => (said += text));
    child.stdout.resume();
    const ended = once(child, 'exit');
    try {
        await eventually(async () => (await fetch(`${address}/health`).catch(() => null))?.ok, Boolean, () => `it did not start: ${said}`);
        await body({ address, said: () => said });
    } finally {
        child.kill('SIGTERM');
    }
    const [code] = await ended;
    assert.equal(code, 0, said);
}

async function eventually(read, accepts, what) {
    let seen;
    for (let i = 0; i < 200; ++i) {
        seen = await read();
        if (accepts(seen)) {
            return seen;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return assert.fail(`${typeof what === 'function' ? what() : what}: ${JSON.stringify(seen)?.slice(0, 300)}`);
}

const is_live = (page) => page.locator('#connection', { hasText: /^live$/ }).waitFor({ timeout: 20000 });

/** Has the model compute until it is told to stop. Never fails: the server may end meanwhile. */
function keep_busy(address) {
    const prompt = { prompt: 'Once upon a time', n_predict: 1500, ignore_eos: true };
    const stop = new AbortController();
    const ask = () => fetch(`${address}/completion`, { method: 'POST', body: JSON.stringify(prompt), signal: stop.signal })
        .then((response) => response.text())
        .then(ask, () => null);
    ask();
    return () => stop.abort();
}

/** Asks the chat page, where the build has it. */
async function chat(page, address) {
    await page.goto(`${address}/`);
    if ((await page.locator('body').innerText()).includes('no chat page')) {
        return false;
    }
    await page.getByPlaceholder('Type a message').fill('Tell me about a dog.');
    await page.getByRole('button', { name: 'Send' }).click();
    await eventually(
        async () => (await page.locator('body').innerText()).split('Tell me about a dog.').pop().trim(),
        (answer) => answer.split(/\s+/).length > 12,
        'no answer came',
    );
    return true;
}

for (const [size, width, height] of [['wide', 1280, 900], ['as a phone', 360, 740]]) {
    for (const colorScheme of ['light', 'dark']) {
        test(`a message, its answer, the panel and a smaller cache: ${size}, ${colorScheme}`, (t) =>
            with_server([], async ({ address, said }) => {
                const page = await (await browser.newContext({ viewport: { width, height }, colorScheme })).newPage();
                const hosts = new Set();
                page.on('request', (request) => hosts.add(new URL(request.url()).origin));
                const has_chat = await chat(page, address);
                assert.match(said(), new RegExp(`shown at ${address}/flash`));
                const stop = keep_busy(address);
                if (has_chat) {
                    await page.locator('#sluice-flash').click();
                    await page.waitForURL(`${address}/flash`);
                } else {
                    t.diagnostic('this build has no chat page');
                    assert.match(await page.locator('body').innerText(), /shown at \/flash/);
                    await page.goto(`${address}/flash`);
                }
                await is_live(page);
                await page.locator('#tiles').getByText(/tokens\/s/).first().waitFor();
                for (let i = 0; i < 6; ++i) {
                    const canvas = page.locator('canvas[role]').nth(i);
                    const first = await canvas.evaluate((each) => each.toDataURL());
                    await eventually(() => canvas.evaluate((each) => each.toDataURL()), (now) => now !== first, `chart ${i} does not move`);
                }
                await page.getByLabel('--cache-mb').fill('8');
                await page.keyboard.press('Enter');
                await page.locator('.setting[data-name="cache-mb"]').getByText('It is set').waitFor();
                const { models } = await (await fetch(`${address}/flash/state`)).json();
                assert.ok(models[0].cache.limit_bytes <= 8 * MIB, `${models[0].cache.limit_bytes} bytes`);
                assert.ok(models[0].totals.tokens > 0);
                await page.locator('#tiles').getByText(/ of (8|7\.\d+)\sMiB/).waitFor();
                await page.getByRole('button', { name: 'Trim the cache' }).click();
                await page.getByText('given back').waitFor();
                const wide = await page.evaluate(() => document.documentElement.scrollWidth);
                assert.ok(wide <= width, `the page is ${wide} pixels wide`);
                assert.deepEqual([...hosts], [address]);
                stop();
            }));
    }
}

describe('with an API key', () => {
    test('the page is public, what it shows is not', () =>
        with_server(['--api-key', 'right'], async ({ address }) => {
            for (const path of ['/flash', '/flash.webmanifest', '/flash-worker.js', '/flash-icon-192.png']) {
                assert.equal((await fetch(address + path)).status, 200, path);
            }
            const json = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' };
            for (const [path, options] of [['/flash/state'], ['/flash/events'], ['/flash/settings', json], ['/flash/trim', json]]) {
                assert.equal((await fetch(address + path, options)).status, 401, path);
            }
            const page = await (await browser.newContext()).newPage();
            await page.goto(`${address}/flash`);
            await page.getByLabel('This server wants its API key').fill('right');
            await page.keyboard.press('Enter');
            await is_live(page);
            assert.doesNotMatch(await (await fetch(`${address}/flash/state`, { headers: { Authorization: 'Bearer right' } })).text(), /right/);
        }));
});

test('a router lists its models, and each has its own panel', async () => {
    const models = await mkdtemp(join(tmpdir(), 'sluice-router-'));
    await symlink(model, join(models, 'stories.gguf'));
    await with_server(['--models-dir', models], async ({ address }) => {
        const page = await (await browser.newContext()).newPage();
        await page.goto(`${address}/flash`);
        await page.getByText('stories: unloaded').waitFor();
        assert.equal((await (await fetch(`${address}/flash/state`)).json()).router, true);
        const asked = { method: 'POST', body: JSON.stringify({ model: 'stories', prompt: 'Once', max_tokens: 4 }) };
        await eventually(() => fetch(`${address}/v1/completions`, asked), (answer) => answer.ok, 'the model was not loaded');
        await page.reload();
        await page.getByRole('link', { name: 'stories' }).click();
        await is_live(page);
        await page.locator('#model').getByText('stories.gguf').waitFor();
    });
    await rm(models, { recursive: true });
});

test('streamed rows show their figures', () =>
    with_server(['--row-stream'], async ({ address }) => {
        const stop = keep_busy(address);
        const page = await (await browser.newContext()).newPage();
        await page.goto(`${address}/flash`);
        await is_live(page);
        assert.equal(await page.getByLabel('Stream row-gathered tables').isChecked(), true);
        await page.locator('#rows').getByText('tables off the resident set').waitFor();
        const { models } = await (await fetch(`${address}/flash/state`)).json();
        assert.equal(models[0].rows.on, true);
        assert.ok(models[0].rows.tables.length > 0);
        stop();
    }));

test('metrics have those of Sluice beside the server\u2019s', () =>
    with_server(['--metrics'], async ({ address }) => {
        const text = await (await fetch(`${address}/metrics`)).text();
        assert.match(text, /^llamacpp:/m);
        assert.match(text, /^sluice_tokens_total\{model="[^"]+",id="1"\} \d+$/m);
    }));

test('other sites\u2019 pages change nothing', () =>
    with_server([], async ({ address }) => {
        for (const headers of [{ Origin: 'http://elsewhere' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
            const answer = await fetch(`${address}/flash/trim`, { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: '{}' });
            assert.equal(answer.status, 403);
        }
    }));

test('a server that ends does not wait for those who look', () =>
    with_server([], async ({ address }) => {
        await fetch(`${address}/flash/events`); // and its stream is left open
    }));
