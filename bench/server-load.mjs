// How long clients of `sluice serve` wait for the first token: 1 to 4 at once, the model streamed against the same model
// in memory (llama.cpp's server as it is, in the same program), in turns, in one run.
//   node bench/server-load.mjs [--program PATH] [--model PATH] [--cache-mb N] [--requests N] [--tokens N]
// Each client asks for a chat anew as soon as it has its answer; no prompt is like another, so each is computed whole.
// Prints p50 and p99 in milliseconds, and streamed / in memory of each. Needs scripts/get-client-libraries.sh.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values: options } = parseArgs({
    options: {
        program: { type: 'string', default: `${root}build/release/apps/cli/sluice` },
        model: { type: 'string', default: `${root}models/tiny-moe-stories-54m-Q4_K_M.gguf` },
        'cache-mb': { type: 'string', default: '8' },
        requests: { type: 'string', default: '100' }, // for each number of clients, of each server
        tokens: { type: 'string', default: '16' },
    },
});
const { OpenAI } = createRequire(`${root}third_party/client-libraries/`)('openai');

const kMostClients = 4;
const kRounds = 4; // the servers take turns, so that what changes on the machine meets both
const kTimesToWait = 600;

const free_port = () =>
    new Promise((resolve) => {
        const probe = createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });

async function start(words) {
    const port = await free_port();
    const child = spawn(
        options.program,
        ['serve', '-m', options.model, '--port', `${port}`, '--parallel', `${kMostClients}`, '-c', '2048', ...words],
        { stdio: 'ignore' },
    );
    const url = `http://127.0.0.1:${port}`;
    for (let tries = 0; !(await fetch(`${url}/health`).then((answer) => answer.ok, () => false)); ++tries) {
        if (tries === kTimesToWait || child.exitCode !== null) throw new Error(`the server did not come up: ${words.join(' ')}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const { streamed_models } = await (await fetch(`${url}/sluice/stats`)).json();
    return {
        client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }),
        stop: () => child.kill('SIGTERM'),
        is_streamed: streamed_models.length > 0,
    };
}

/** Some 60 words that no other request begins with. */
function prompt_of(number) {
    const words = ['king', 'forest', 'castle', 'daughter', 'woodcutter', 'river', 'winter', 'bread', 'horse', 'night'];
    const story = Array.from({ length: 60 }, (_, at) => words[(number * 7 + at * (3 + (number % 5))) % words.length]);
    return `${number} ${story.join(' ')}`;
}

let asked = 0;

/** Milliseconds from asking to the first token. */
async function time_first_token(client) {
    const content = prompt_of(++asked);
    const begun = performance.now();
    let first = null;
    const stream = await client.chat.completions.create({
        model: 'any', messages: [{ role: 'user', content }], stream: true, temperature: 0,
        max_tokens: Number(options.tokens), ignore_eos: true });
    for await (const event of stream) {
        if (first === null && event.choices[0]?.delta?.content) first = performance.now() - begun;
    }
    if (first === null) throw new Error('an answer had no token');
    return first;
}

/** The same; asks once more where the server has closed the connection that was kept for this request. */
async function first_token(client) {
    try {
        return await time_first_token(client);
    } catch (error) {
        if (!(error instanceof OpenAI.APIConnectionError)) throw error;
        return time_first_token(client);
    }
}

/** `clients` at once until `requests` are answered. */
async function ask_together(client, clients, requests) {
    const times = [];
    let left = requests;
    const one_client = async () => {
        while (left-- > 0) times.push(await first_token(client));
    };
    await Promise.all(Array.from({ length: clients }, one_client));
    return times;
}

/** The smallest of `times` that `share` of them do not exceed. */
function percentile(times, share) {
    const sorted = [...times].sort((a, b) => a - b);
    return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

async function measure(servers, clients) {
    const each = Math.max(1, Math.ceil(Number(options.requests) / kRounds));
    const times = { streamed: [], memory: [] };
    for (let round = 0; round < kRounds; ++round) {
        const turn = round % 2 === 0 ? ['streamed', 'memory'] : ['memory', 'streamed'];
        for (const name of turn) times[name].push(...(await ask_together(servers[name].client, clients, each)));
    }
    return times;
}

const servers = {
    streamed: await start(['--moe-stream', '--cache-mb', options['cache-mb'], '--no-hot-set']),
    memory: await start(['--no-moe-stream']),
};
try {
    if (!servers.streamed.is_streamed || servers.memory.is_streamed) throw new Error('one is to stream, the other not');
    for (const { client } of Object.values(servers)) await ask_together(client, kMostClients, 2 * kMostClients);
    console.log('clients  requests  percentile  streamed ms  in memory ms  ratio');
    for (let clients = 1; clients <= kMostClients; ++clients) {
        const times = await measure(servers, clients);
        for (const share of [0.5, 0.99]) {
            const [ours, theirs] = [percentile(times.streamed, share), percentile(times.memory, share)];
            console.log([
                `${clients}`.padStart(7), `${times.streamed.length}`.padStart(9), `p${share * 100}`.padStart(11),
                ours.toFixed(1).padStart(12), theirs.toFixed(1).padStart(13), (ours / theirs).toFixed(2).padStart(6),
            ].join(' '));
        }
    }
} finally {
    for (const { stop } of Object.values(servers)) stop();
}
