// The stand-in speaks the contract of docs/flash.md: what the page is tested with is what the server has to say.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
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
