// The stand-in speaks the contract of docs/flash.md: what the page is tested with is what the server has to say.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MadeUp } from './made-up.mjs';

/** The first column of the tables below a heading. */
function documented(page, heading) {
    const section = page.split(`\n### ${heading}\n`)[1].split('\n### ')[0];
    return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
}

/** Paths of all members; `[]` for any element of an array. */
function paths(value, path, found) {
    if (Array.isArray(value)) {
        value.forEach((each) => paths(each, `${path}[]`, found));
    } else if (value !== null && typeof value === 'object') {
        for (const [name, member] of Object.entries(value)) {
            const inner = path ? `${path}.${name}` : name;
            found.add(inner);
            paths(member, inner, found);
        }
    }
    return found;
}

test('what the stand-in says is what docs/flash.md says', async () => {
    const page = await readFile(new URL('../../docs/flash.md', import.meta.url), 'utf8');
    const samples = documented(page, 'Samples');
    const counts = samples.slice(2, -2);
    const expected = documented(page, 'State').concat(
        samples.flatMap((name) => [`models[].sample.${name}`, `models[].history[].${name}`]),
        counts.map((name) => `models[].totals.${name}`),
    );
    // An object whose members are all told of needs no line of its own.
    const said = [...paths(new MadeUp().state(), '', new Set())].filter(
        (path) => expected.includes(path) || !expected.some((other) => other.startsWith(`${path}.`)),
    );
    assert.deepEqual(said.sort(), expected.sort());
});

test('the chat page that is embedded has a link to the panel, and is otherwise as it was', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-link-'));
    const page = '<html><body data-a="b; c"><div>[x]; ${y} \\n</div>\n</body></html>\n';
    await mkdir(join(folder, 'from', 'deep'), { recursive: true });
    await writeFile(join(folder, 'from', 'index.html'), page);
    await writeFile(join(folder, 'from', 'deep', 'a.js'), page);
    const script = fileURLToPath(new URL('../../cmake/link_flash.cmake', import.meta.url));
    execFileSync('cmake', [`-DFROM=${join(folder, 'from')}`, `-DTO=${join(folder, 'to')}`, '-P', script]);
    const linked = await readFile(join(folder, 'to', 'index.html'), 'utf8');
    const [link] = /<a id="sluice-flash" href="flash".*?<\/a>/.exec(linked);
    assert.equal(linked.replace(link, ''), page);
    assert.equal(await readFile(join(folder, 'to', 'deep', 'a.js'), 'utf8'), page);
    await rm(folder, { recursive: true });
});
