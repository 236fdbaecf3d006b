// Runs every example of docs/server.md as it stands, but for the port: see serve_clients.mjs for the variables; SERVER_PAGE
// is that page.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

const examples = [...readFileSync(process.env.SERVER_PAGE, 'utf8').matchAll(/```(sh|js)\n([^]*?)```/g)];
const folder = mkdtempSync(join(tmpdir(), 'sluice-examples-'));
let server;
let port;

before(async () => {
    port = await new Promise((resolve) => {
        const probe = createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
    symlinkSync(join(process.env.CLIENT_LIBRARIES, 'node_modules'), join(folder, 'node_modules'));
    server = spawn(process.env.SERVER_PROGRAM, [
        'serve', '-m', process.env.SERVED_MODEL, '--port', `${port}`, '-t', '1', '--moe-stream', '--cache-mb', '8',
        '--no-hot-set'], { stdio: 'ignore' });
    for (let tries = 0; !(await fetch(`http://127.0.0.1:${port}/health`).then((got) => got.ok, () => false)); ++tries) {
        assert.ok(tries < 600 && server.exitCode === null, 'the server did not come up');
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
});
after(() => (server.kill(), rmSync(folder, { recursive: true })));

test('ThePageHasExamples', () => assert.ok(examples.length >= 4));

examples.forEach(([, language, text], index) =>
    test(`Example${index + 1}RunsAsItStands`, () => {
        const code = text.replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`);
        const file = join(folder, `example${index}.mjs`);
        writeFileSync(file, code);
        const ran = language === 'sh' ? spawnSync('sh', ['-ec', code]) : spawnSync('node', [file]);
        assert.equal(ran.status, 0, `${ran.stderr}`);
        assert.ok(`${ran.stdout}`.trim().length > 0);
        assert.doesNotMatch(`${ran.stdout}`, /"error"/);
    }));
