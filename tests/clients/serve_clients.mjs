// Drives `sluice serve` over loopback as programs do: with OpenAI's and Anthropic's own clients, and with plain fetch.
//   node --test serve_clients.mjs     server.mjs says with which variables
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Anthropic, OpenAI, complete, greedy, prompts, say, start, streamed, templates } from './server.mjs';

let server;
let openai;
before(async () => {
    server = await start(...streamed, '--parallel', '4');
    openai = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
});
after(() => server.stop());

const misses = async () => (await server.ask('/sluice/stats')).body.streamed_models[0].misses;
const busy_slots = async () => (await server.ask('/slots')).body.filter((slot) => slot.is_processing).length;

test('AChatIsAnsweredAndItsExpertsAreRead', async () => {
    const before_it = await misses();
    const answer = await openai.chat.completions.create({ model: 'any', messages: say('Hello'), ...greedy });
    assert.ok(answer.choices[0].message.content.length > 0);
    assert.ok((await misses()) > before_it);
});

test('AStreamIsTheWholeAnswerInPieces', async () => {
    const whole = await openai.chat.completions.create({ model: 'any', messages: say('Hello'), ...greedy });
    let text = '';
    let pieces = 0;
    for await (const event of await openai.chat.completions.create({
        model: 'any', messages: say('Hello'), stream: true, ...greedy })) {
        text += event.choices[0]?.delta?.content ?? '';
        ++pieces;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.ok(pieces > 4);
});

test('AnthropicsClientIsAnsweredWholeAndInPieces', async () => {
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const asked = { model: 'any', max_tokens: 16, temperature: 0, messages: say('Hello') };
    const whole = await anthropic.messages.create(asked);
    const stream = anthropic.messages.stream(asked);
    const text = await stream.finalText();
    assert.ok(text.length > 0);
    assert.equal(text, whole.content[0].text);
});

test('AnAnswerKeepsToAJsonSchema', async () => {
    const schema = {
        type: 'object', additionalProperties: false, required: ['name', 'age'],
        properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer', minimum: 0, maximum: 99 } } };
    const answer = await openai.chat.completions.create({
        model: 'any', messages: say('Who are you?'), temperature: 0, max_tokens: 100,
        response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } } });
    const person = JSON.parse(answer.choices[0].message.content);
    assert.deepEqual(Object.keys(person), ['name', 'age']);
    assert.equal(typeof person.name, 'string');
    assert.ok(Number.isInteger(person.age));
});

test('ToolsAreShownToTheModelByItsTemplate', async () => {
    const own = await start(...streamed, '--chat-template-file', `${templates}/Qwen-Qwen2.5-7B-Instruct.jinja`);
    try {
        const tools = [{ type: 'function', function: { name: 'walk_there', description: 'Walks', parameters: { type: 'object' } } }];
        const shown = await own.ask('/apply-template', { messages: say('Walk'), tools });
        assert.match(shown.body.prompt, /walk_there/);
        const answer = await own.ask('/v1/chat/completions', { messages: say('Walk'), tools, ...greedy });
        assert.equal(answer.status, 200);
    } finally {
        await own.stop();
    }
});

test('WhatIsCancelledInMidStreamGivesItsSlotBack', async () => {
    const stream = await openai.chat.completions.create({
        model: 'any', messages: say('Tell me all'), stream: true, temperature: 0, max_tokens: 400, ignore_eos: true });
    let pieces = 0;
    for await (const event of stream) {
        if (++pieces === 3) break; // leaving the loop closes the connection
    }
    for (let tries = 0; (await busy_slots()) > 0; ++tries) {
        assert.ok(tries < 100, 'the slot is still busy');
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.equal((await complete(server, prompts[0])).status, 200);
});

test('FourAtOnceGetWhatEachGetsAlone', async () => {
    const alone = [];
    for (const prompt of prompts) alone.push((await complete(server, prompt)).body.tokens);
    const together = await Promise.all(prompts.map((prompt) => complete(server, prompt)));
    assert.deepEqual(together.map((answer) => answer.body.tokens), alone);
});

test('ATurnComputesOnlyWhatIsNew', async () => {
    const first = await openai.chat.completions.create({ model: 'any', messages: say('Hello'), ...greedy });
    const said = first.choices[0].message;
    const next = await openai.chat.completions.create({
        model: 'any', messages: [...say('Hello'), said, ...say('And then?')], ...greedy });
    const before_it = first.usage.prompt_tokens + first.usage.completion_tokens;
    assert.ok(next.timings.cache_n >= before_it - 2, `${next.timings.cache_n} of ${before_it} tokens were kept`);
    assert.equal(next.timings.prompt_n + next.timings.cache_n, next.usage.prompt_tokens);
});

test('StreamedTokensAndProbabilitiesAreThoseOfAModelInMemory', async () => {
    const resident = await start('--no-moe-stream', '--parallel', '4');
    try {
        assert.deepEqual((await resident.ask('/sluice/stats')).body.streamed_models, []);
        for (const prompt of prompts) {
            const ours = await complete(server, prompt, { n_probs: 5 });
            const theirs = await complete(resident, prompt, { n_probs: 5 });
            assert.deepEqual(ours.body.tokens, theirs.body.tokens);
            assert.deepEqual(ours.body.completion_probabilities, theirs.body.completion_probabilities);
        }
    } finally {
        await resident.stop();
    }
});

test('PagesOfOtherSitesAreRefusedAndThoseOfThisMachineAreNot', async () => {
    const body = { prompt: 'x', n_predict: 1 };
    assert.equal((await server.ask('/completion', body, { Origin: 'http://elsewhere.example' })).status, 403);
    assert.equal((await server.ask('/completion', body, { Origin: 'http://localhost:3000' })).status, 200);
});

test('ABodyThatIsTooLargeIsRefused', async () => {
    const answer = await fetch(server.url + '/completion', { method: 'POST', body: 'x'.repeat(101 << 20) }).then(
        (got) => got.status, () => 413); // or the connection is closed while the body is still being sent
    assert.equal(answer, 413);
    assert.equal((await server.ask('/health')).status, 200);
});

test('KeysAreAskedForAndHealthIsNot', async () => {
    const locked = await start(...streamed, '--api-key', 'secret', '--host', '0.0.0.0');
    try {
        const body = { prompt: 'x', n_predict: 1 };
        assert.equal((await locked.ask('/completion', body)).status, 401);
        assert.equal((await locked.ask('/sluice/stats')).status, 401);
        assert.equal((await locked.ask('/completion', body, { Authorization: 'Bearer secret' })).status, 200);
        assert.equal((await locked.ask('/health')).status, 200);
    } finally {
        await locked.stop();
    }
});

test('ASignalLetsARunningRequestFinishAndEndsWithZero', async () => {
    const own = await start(...streamed);
    const running = complete(own, prompts[0], { n_predict: 150, ignore_eos: true });
    while (!own.log().includes('launch_slot_')) await new Promise((resolve) => setTimeout(resolve, 10));
    const ended = own.stop();
    const answer = await running;
    assert.equal(answer.status, 200);
    assert.equal(answer.body.tokens.length, 150);
    assert.equal(await ended, 0);
});
