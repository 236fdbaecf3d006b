// The flash panel in a real browser, against a stand-in for the server.
//   PANEL_FILES   folder with the panel's files as built
//   PANEL_TOOLS    folder whose node_modules has playwright-core
//   PANEL_BROWSER       path of Chromium
//   PANEL_PICTURES   optional: folder to write pictures for docs/ to
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { start } from './stand-in.mjs';

const { PANEL_FILES: folder, PANEL_TOOLS: tools, PANEL_BROWSER: browser_path } = process.env;
const { chromium } = createRequire(`${tools}/`)('playwright-core');
const pace_ms = 150;
const phone = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
const desk = { viewport: { width: 1280, height: 900 } };

let browser;
before(async () => {
    browser = await chromium.launch({ executablePath: browser_path, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
});
after(() => browser?.close());

/** Runs `body` with a page of a stand-in server; what goes wrong in the page fails the test. */
async function with_page({ key = null, look = desk, path = '/flash', expected = [] }, body) {
    const server = await start({ folder, key, pace_ms });
    const context = await browser.newContext(look);
    const page = await context.newPage();
    const wrong = [];
    page.on('pageerror', (error) => wrong.push(`${error}`));
    page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type()) && !expected.some((each) => each.test(message.text()))) {
            wrong.push(message.text());
        }
    });
    const hosts = new Set();
    context.on('request', (request) => hosts.add(new URL(request.url()).origin));
    try {
        await page.goto(server.address + path);
        await body({ page, server, context });
        assert.deepEqual([...hosts], [server.address], 'something was fetched from another host');
        assert.deepEqual(wrong, []);
    } finally {
        await context.close();
        await server.stop();
    }
}

const is_live = (page) => page.locator('#connection', { hasText: /^live$/ }).waitFor({ timeout: 10000 });

/** What a canvas shows, as text to compare. */
const picture = (page, index) =>
    page
        .locator('canvas[role]')
        .nth(index)
        .evaluate((canvas) => canvas.toDataURL());

/** Waits until `read()` gives something that `accepts` accepts. */
async function eventually(read, accepts, what) {
    let seen;
    for (let i = 0; i < 100; ++i) {
        seen = await read();
        if (accepts(seen)) {
            return seen;
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return assert.fail(`${what}: ${JSON.stringify(seen).slice(0, 200)}`);
}

const row = (page, name) => page.locator(`.setting[data-name="${name}"]`);

async function take_pictures(page, name) {
    const to = process.env.PANEL_PICTURES;
    if (to) {
        const { width } = page.viewportSize();
        await page.evaluate(() => document.getElementById('settings').scrollIntoView());
        await page.screenshot({ path: `${to}/flash-settings-${name}.png` });
        await page.evaluate(() => scrollTo(0, 0));
        const clip = { x: 0, y: 0, width, height: width > 1000 ? 1190 : 1400 };
        await page.screenshot({ path: `${to}/flash-${name}.png`, fullPage: true, clip });
    }
}

for (const [size, look] of Object.entries({ 1280: desk, 360: phone })) {
    for (const colorScheme of ['light', 'dark']) {
        describe(`at ${size} pixels, ${colorScheme}`, () => {
            test('charts move, numbers are shown, nothing sticks out', () =>
                with_page({ look: { ...look, colorScheme } }, async ({ page }) => {
                    await is_live(page);
                    const tiles = await page.locator('#tiles').innerText();
                    for (const number of [/\d+\stokens\/s/, /\d+(\.\d)?\s%/, /\d\sMiB\/s/, /ceiling: 3,072\sMiB/]) {
                        assert.match(tiles, number);
                    }
                    const count = await page.locator('canvas[role]').count();
                    assert.equal(count, 6);
                    for (let i = 0; i < count; ++i) {
                        const first = await picture(page, i);
                        await eventually(() => picture(page, i), (now) => now !== first, `chart ${i} does not move`);
                    }
                    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
                    assert.equal(background, colorScheme === 'dark' ? 'rgb(22, 24, 26)' : 'rgb(255, 255, 255)');
                    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
                    assert.ok(wide <= Number(size), `the page is ${wide} pixels wide`);
                    await take_pictures(page, `${size}-${colorScheme}`);
                }));
        });
    }
}

test('time is told part by part, as a share and for each token', () =>
    with_page({}, async ({ page }) => {
        await is_live(page);
        const legend = await page.locator('figure', { hasText: 'Where the time goes' }).locator('figcaption').innerText();
        for (const part of ['computing', 'waiting for experts', 'waiting for rows', 'cache bookkeeping', 'between tokens']) {
            assert.match(legend, new RegExp(`${part} [\\d.]+\\s%, [\\d.]+\\sms a token`));
        }
    }));

test('what the run settled on comes with its reasons', () =>
    with_page({}, async ({ page }) => {
        await is_live(page);
        assert.match(await page.locator('#settled').innerText(), /threads\s+2\s+1 takes 40 % longer/);
        assert.match(await page.locator('#settled').innerText(), /96 tokens tried/);
    }));

test('an expert tells at a touch how it was used', () =>
    with_page({ look: phone }, async ({ page }) => {
        await is_live(page);
        const canvas = page.locator('#heat canvas[role]');
        await canvas.scrollIntoViewIfNeeded();
        const box = await canvas.boundingBox();
        await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 3);
        assert.match(await page.locator('.tip').innerText(), /layer \d+, expert \d+\n.*in the cache\nlayer: \d+ of 128 in the cache/);
    }));

describe('settings', () => {
    test('come in the order that the server has them, with who chose them and what a change needs', () =>
        with_page({}, async ({ page }) => {
            await is_live(page);
            const names = await page.locator('.setting').evaluateAll((all) => all.map((each) => each.dataset.name));
            assert.deepEqual(names.slice(0, 4), ['ram-mb', 'moe-stream', 'cache-mb', 'cache-policy']);
            const cache = await row(page, 'cache-mb').innerText();
            assert.match(cache, /changes at once/);
            assert.match(cache, /1,800\sMiB\s+chosen by the plan: what the ceiling leaves/);
            assert.match(await row(page, 'threads').innerText(), /needs a restart[^]*found out by the run: 2: 1 takes 40 % longer/);
        }));

    test('lossy ones are folded away and marked', () =>
        with_page({}, async ({ page }) => {
            await is_live(page);
            await row(page, 'drop-cold').waitFor({ state: 'hidden' });
            await page.locator('summary', { hasText: 'Lossy' }).click();
            assert.match(await row(page, 'drop-cold').innerText(), /lossy/);
            assert.match(await page.locator('details', { has: row(page, 'drop-cold') }).innerText(), /another than the model\u2019s/);
        }));

    test('a change is posted, and its value shown', () =>
        with_page({}, async ({ page, server }) => {
            await is_live(page);
            await page.getByLabel('--cache-mb').fill('900');
            await row(page, 'cache-mb').getByRole('button').click();
            await row(page, 'cache-mb').getByText('900\u00a0MiB').waitFor();
            assert.deepEqual(server.seen.settings, [{ 'cache-mb': 900 }]);
            assert.match(await row(page, 'cache-mb').innerText(), /It is set/);
            await page.locator('#tiles').getByText('900\u00a0MiB of 900\u00a0MiB').waitFor();
        }));

    test('what is typed stays while numbers arrive', () =>
        with_page({}, async ({ page }) => {
            await is_live(page);
            await page.getByLabel('--cache-mb').fill('7');
            await page.getByLabel('--lookahead').focus();
            await page.waitForTimeout(4 * pace_ms);
            assert.equal(await page.getByLabel('--cache-mb').inputValue(), '7');
        }));

    test('a wrong value is refused before it is sent, by name', () =>
        with_page({}, async ({ page, server }) => {
            await is_live(page);
            await page.getByLabel('--cache-mb').fill('lots');
            await page.keyboard.press('Enter');
            await row(page, 'cache-mb').getByText('a number is wanted, or auto').waitFor();
            await page.getByLabel('--cache-mb').fill('7');
            await page.keyboard.press('Enter');
            await row(page, 'cache-mb').getByText('at least 140').waitFor();
            assert.deepEqual(server.seen.settings, []);
        }));

    test('what the server refuses is told in its words', () =>
        with_page({ expected: [/400/] }, async ({ page }) => {
            await is_live(page);
            await page.getByLabel('--cache-mb').fill('1313');
            await page.keyboard.press('Enter');
            await row(page, 'cache-mb').getByText('Not set: the cache cannot have an unlucky size').waitFor();
            await row(page, 'cache-mb').getByText('1,800').waitFor();
        }));

    test('one that needs a restart gives the command line', () =>
        with_page({}, async ({ page, server }) => {
            await is_live(page);
            await page.getByLabel('--ctx-size').fill('16384');
            await page.keyboard.press('Enter');
            await page.getByLabel('--dense-weights').selectOption('mmap');
            assert.equal(
                await page.locator('#pending pre').innerText(),
                'sluice serve -m /models/made-up-moe-8b-Q4_K_M.gguf --ram-mb=3072 --row-stream ' +
                    '--ctx-size 16384 --dense-weights mmap',
            );
            assert.deepEqual(server.seen.settings, []);
            await page.getByRole('button', { name: 'Forget it' }).click();
            assert.equal(await page.getByLabel('--ctx-size').inputValue(), '8192');
        }));

    test('the switch of row streaming lies beside the dense weights, with its figures', () =>
        with_page({}, async ({ page }) => {
            await is_live(page);
            assert.match(await page.locator('#rows').innerText(), /off the resident set\s+210\sMiB/);
            await page.getByLabel('Stream row-gathered tables').uncheck();
            assert.equal(await page.getByLabel('--row-stream', { exact: true }).isChecked(), false);
            assert.match(await page.locator('#pending pre').innerText(), / -c 8192 --no-row-stream$/);
            await page.getByLabel('Stream row-gathered tables').check();
            await page.locator('#pending').waitFor({ state: 'hidden' });
        }));

    test('an app that holds the page starts the engine again itself', () =>
        with_page({ path: '/flash?' }, async ({ page }) => {
            await page.addInitScript(() => {
                window.sluice_host = { restart: (changes) => (window.asked = changes) };
            });
            await page.reload();
            await is_live(page);
            await page.getByLabel('Stream row-gathered tables').uncheck();
            await page.getByRole('button', { name: 'Start the engine again' }).click();
            assert.equal(await page.evaluate(() => window.asked), '{"row-stream":false}');
        }));
});

test('the cache is trimmed at a press', () =>
    with_page({}, async ({ page, server }) => {
        await is_live(page);
        await page.getByRole('button', { name: 'Trim the cache' }).click();
        await page.getByText('1,800\u00a0MiB given back').waitFor();
        assert.equal(server.seen.trims, 1);
    }));

describe('with an API key', () => {
    test('it is asked for once, and kept for the tab', () =>
        with_page({ key: 'right', expected: [/401/] }, async ({ page }) => {
            await page.getByLabel('This server wants its API key').fill('wrong');
            await page.getByRole('button', { name: 'Go on' }).click();
            await page.getByText('That key was refused').waitFor();
            await page.getByLabel('This server wants its API key').fill('right');
            await page.keyboard.press('Enter');
            await is_live(page);
            await page.reload();
            await is_live(page);
            assert.equal(await page.locator('#key-dialog').isVisible(), false);
            assert.equal(await page.evaluate(() => localStorage.length), 0);
        }));

    test('settings go with it', () =>
        with_page({ key: 'right', path: '/flash#key=right' }, async ({ page, server }) => {
            await is_live(page);
            assert.doesNotMatch(page.url(), /right/);
            await page.getByLabel('--lookahead').fill('off');
            await page.keyboard.press('Enter');
            await row(page, 'lookahead').getByText('It is set').waitFor();
            assert.deepEqual(server.seen.settings, [{ lookahead: 'off' }]);
        }));
});

test('nobody is measured for while the page is hidden', () =>
    with_page({}, async ({ page, server }) => {
        await is_live(page);
        const turn = (hidden) =>
            page.evaluate((value) => {
                Object.defineProperty(document, 'hidden', { value, configurable: true });
                document.dispatchEvent(new Event('visibilitychange'));
            }, hidden);
        await turn(true);
        await eventually(() => server.seen.open, (open) => open === 0, 'the stream is still open');
        await turn(false);
        await is_live(page);
        await eventually(() => server.seen.open, (open) => open === 1, 'there is no stream');
    }));

test('the page opens without its server, keeps nothing that was measured, and finds the server again', () =>
    with_page({ expected: [/Failed to load/, /ERR_/] }, async ({ page, server }) => {
        await is_live(page);
        await page.evaluate(() => navigator.serviceWorker.ready);
        const kept = () =>
            page.evaluate(async () => {
                const names = await caches.keys();
                const requests = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
                return requests.flat().map(({ url }) => new URL(url).pathname).sort();
            });
        assert.deepEqual(await kept(), ['/flash', '/flash-icon-192.png', '/flash-icon-512.png', '/flash.webmanifest']);
        const port = Number(new URL(server.address).port);
        await server.stop();
        await page.reload();
        await page.locator('#connection', { hasText: 'not connected' }).waitFor();
        const again = await start({ folder, port, pace_ms });
        try {
            await is_live(page);
            assert.equal((await kept()).length, 4);
        } finally {
            await again.stop();
        }
    }));

test('it can be installed', () =>
    with_page({}, async ({ page, server, context }) => {
        await is_live(page);
        const devtools = await context.newCDPSession(page);
        const { errors, data } = await devtools.send('Page.getAppManifest');
        assert.deepEqual(errors, []);
        const manifest = JSON.parse(data);
        assert.equal(new URL(manifest.start_url, `${server.address}/flash.webmanifest`).pathname, '/flash');
        for (const { src, sizes } of manifest.icons) {
            const size = await page.evaluate(async (address) => {
                const image = await createImageBitmap(await (await fetch(address)).blob());
                return `${image.width}x${image.height}`;
            }, src);
            assert.equal(size, sizes);
        }
        const { installabilityErrors } = await devtools.send('Page.getInstallabilityErrors');
        assert.deepEqual(
            installabilityErrors.filter(({ errorId }) => errorId !== 'in-incognito'),
            [],
        );
    }));
