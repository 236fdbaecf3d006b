// A stand-in for the hub that `-hf OWNER/REPO` fetches from: serves FOLDER/OWNER/REPO/... as llama.cpp asks for it. A
// server that has MODEL_ENDPOINT set to its address goes there.
//   node hub.mjs FOLDER PORT
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';

const sha256 = (text) => createHash('sha256').update(text).digest('hex');

function files_of(folder) {
    const names = readdirSync(folder, { recursive: true });
    return names
        .filter((name) => statSync(join(folder, name)).isFile())
        .map((path) => ({ type: 'file', path, oid: sha256(join(folder, path)), size: statSync(join(folder, path)).size }));
}

/** Listens on this machine. `seen` has the paths that were asked for. */
export async function start({ folder, port = 0 }) {
    const seen = [];
    const json = (response, value) =>
        response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    const nothing = (response) =>
        response.writeHead(404, { 'Content-Type': 'application/json' }).end('{"error": "there is no such thing"}');

    function send_file(request, response, path) {
        const headers = { 'Content-Length': statSync(path).size, ETag: `"${sha256(path)}"`, 'Accept-Ranges': 'none' };
        response.writeHead(200, headers);
        if (request.method === 'HEAD') return response.end();
        return createReadStream(path).pipe(response);
    }

    const server = createServer((request, response) => {
        const path = normalize(decodeURIComponent(request.url.split('?')[0]));
        seen.push(`${request.method} ${path}`);
        const [, api_repo, what] = /^\/api\/models\/([^/]+\/[^/]+)\/(refs|tree)\b/.exec(path) ?? [];
        const [, repo, file] = /^\/([^/]+\/[^/]+)\/resolve\/[^/]+\/(.+)$/.exec(path) ?? [];
        const there = join(folder, api_repo ?? join(repo ?? '', file ?? ''));
        if (!(api_repo || repo) || !existsSync(there)) return nothing(response);
        if (what === 'refs') return json(response, { branches: [{ name: 'main', targetCommit: sha256(there).slice(0, 40) }] });
        return what === 'tree' ? json(response, files_of(there)) : send_file(request, response, there);
    });
    await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
    return { url: `http://127.0.0.1:${server.address().port}`, seen, stop: () => server.close() };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
    const { url } = await start({ folder: process.argv[2], port: Number(process.argv[3]) });
    console.log(url);
}
