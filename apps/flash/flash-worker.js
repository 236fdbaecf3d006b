// Keeps the page itself, so that it opens (and says that there is no connection) while the server is away. What the
// server measures is never kept.
'use strict';

const shell_name = 'sluice-flash-1';
const shell = ['flash', 'flash.webmanifest', 'flash-icon-192.png', 'flash-icon-512.png'];
const address = (name) => new URL(name, self.location).href;

self.addEventListener('install', (event) => {
    const fresh = shell.map((name) => new Request(address(name), { cache: 'reload' }));
    event.waitUntil(caches.open(shell_name).then((cache) => cache.addAll(fresh)));
    self.skipWaiting();
});

self.addEventListener('activate', (event) => {
    const drop_others = async () => {
        const names = (await caches.keys()).filter((name) => name.startsWith('sluice-flash-') && name !== shell_name);
        await Promise.all(names.map((name) => caches.delete(name)));
        await self.clients.claim();
    };
    event.waitUntil(drop_others());
});

/** From the server, so that a new version is seen at once; from what is kept where there is none. */
async function answer(request) {
    const cache = await caches.open(shell_name);
    try {
        const response = await fetch(request, { cache: 'no-cache' });
        if (response.ok) {
            await cache.put(request.url, response.clone());
        }
        return response;
    } catch (error) {
        const kept = await cache.match(request.url);
        if (kept) {
            return kept;
        }
        throw error;
    }
}

self.addEventListener('fetch', (event) => {
    const plain = event.request.url.split(/[?#]/)[0];
    if (event.request.method === 'GET' && shell.some((name) => address(name) === plain)) {
        event.respondWith(answer(event.request));
    }
});
