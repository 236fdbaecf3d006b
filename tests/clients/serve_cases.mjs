// What people run into with models and options of theirs, rebuilt small: tool calls, reasoning, damaged weights, odd
// tokenizers and templates, the hub.
//   node --test serve_cases.mjs     server.mjs says with which variables
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { start as start_hub } from './hub.mjs';
import { Anthropic, OpenAI, complete, greedy, prompts, say, start, streamed, templates } from './server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sluice-cases-'));
after(() => rmSync(folder, { recursive: true }));

/** A copy of the model, changed; tests/altered_model.cpp says how. */
function altered(name, ...words) {
    const path = join(folder, name);
    execFileSync(process.env.ALTERED_MODEL, [process.env.SERVED_MODEL, path, ...words]);
    return path;
}

/** Has `body` use a server that streams. */
async function with_server(words, body) {
    const server = await start(...streamed, ...words);
    try {
        await body(server);
    } finally {
        assert.equal(await server.stop(), 0, server.log());
    }
}

const id_of = async (server, text) => (await server.ask('/tokenize', { content: text })).body.tokens[0];

describe('a tool call', () => {
    const parameters = {
        type: 'object', additionalProperties: false, required: ['way', 'fast'],
        properties: { way: { enum: ['north', 'south'] }, fast: { type: 'boolean' } } };
    const name = 'walk_there';

    // The model knows no tools. The template's calls begin with '{', so it is made to begin with that; the grammar of the
    // call, which the server makes of the tool, does the rest.
    let brace;
    const with_tool_server = async (body) => {
        if (brace === undefined) await with_server([], async (server) => (brace = await id_of(server, '{')));
        await with_server([
            '--chat-template-file', `${templates}/meta-llama-Llama-3.1-8B-Instruct.jinja`, '--logit-bias', `${brace}+100`,
            '-c', '2048', '--override-kv', 'qwen3moe.context_length=int:2048'], body);
    };

    function is_right(called, input) {
        assert.equal(called, name);
        assert.deepEqual(Object.keys(input).sort(), ['fast', 'way']);
        assert.ok(['north', 'south'].includes(input.way));
        assert.equal(typeof input.fast, 'boolean');
    }

    test("is parsed by OpenAI's client, whole and in pieces", () =>
        with_tool_server(async (server) => {
            const openai = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
            const asked = {
                model: 'any', messages: say('Walk'), temperature: 0, max_tokens: 100, tool_choice: 'required',
                tools: [{ type: 'function', function: { name, description: 'Walks', parameters } }] };
            const whole = (await openai.chat.completions.create(asked)).choices[0];
            const pieces = (await openai.chat.completions.stream(asked).finalChatCompletion()).choices[0];
            for (const choice of [whole, pieces]) {
                assert.equal(choice.finish_reason, 'tool_calls');
                const [call] = choice.message.tool_calls;
                is_right(call.function.name, JSON.parse(call.function.arguments));
            }
        }));

    test("is parsed by Anthropic's client, whole and in pieces", () =>
        with_tool_server(async (server) => {
            const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
            const asked = {
                model: 'any', messages: say('Walk'), temperature: 0, max_tokens: 100, tool_choice: { type: 'any' },
                tools: [{ name, description: 'Walks', input_schema: parameters }] };
            for (const message of [await anthropic.messages.create(asked), await anthropic.messages.stream(asked).finalMessage()]) {
                assert.equal(message.stop_reason, 'tool_use');
                const call = message.content.find((block) => block.type === 'tool_use');
                is_right(call.name, call.input);
            }
        }));
});

test('AJsonSchemaHoldsForAStreamToo', () =>
    with_server([], async (server) => {
        const openai = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
        const schema = {
            type: 'object', additionalProperties: false, required: ['fits'], properties: { fits: { type: 'boolean' } } };
        const stream = openai.chat.completions.stream({
            model: 'any', messages: say('Does it fit?'), temperature: 0, max_tokens: 200,
            response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } } });
        const answer = JSON.parse((await stream.finalChatCompletion()).choices[0].message.content);
        assert.equal(typeof answer.fits, 'boolean');
    }));

describe('reasoning', () => {
    test('comes apart from the answer', () =>
        with_server(['--chat-template-file', `${templates}/Qwen-QwQ-32B.jinja`], async (server) => {
            const { message } = (await server.ask('/v1/chat/completions', { messages: say('Hello'), ...greedy })).body.choices[0];
            assert.ok(message.reasoning_content.length > 0);
            assert.equal(message.content ?? '', '');
        }));

    test('can be switched off, for the server and for a request', async () => {
        const template = ['--chat-template-file', `${templates}/Qwen-Qwen3-0.6B.jinja`];
        const prompt_of = async (server, more) =>
            (await server.ask('/apply-template', { messages: say('Hello'), ...more })).body.prompt;
        const none = /<think>\s*<\/think>\s*$/;
        await with_server(template, async (server) => {
            assert.doesNotMatch(await prompt_of(server, {}), none);
            assert.match(await prompt_of(server, { chat_template_kwargs: { enable_thinking: false } }), none);
        });
        await with_server([...template, '--reasoning-budget', '0'], async (server) => {
            const { message } = (await server.ask('/v1/chat/completions', { messages: say('Hello'), ...greedy })).body.choices[0];
            assert.equal(message.reasoning_content ?? '', '');
            assert.ok(message.content.length > 0);
        });
    });
});

test('WhatIsNoNumberFailsThatRequestAndTheServerGoesOn', async () => {
    let bad;
    let expected;
    await with_server([], async (server) => {
        bad = await id_of(server, ' castle');
        expected = (await complete(server, prompts[0])).body.tokens;
    });
    const model = altered('damaged.gguf', '--spoil', `token_embd.weight:${bad}`);
    await with_server(['-m', model, '--parallel', '2', '--kv-unified'], async (server) => {
        for (let round = 0; round < 2; ++round) {
            const kept = await complete(server, prompts[0], { id_slot: 0, cache_prompt: true });
            assert.deepEqual(kept.body.tokens, expected);
            const failed = await complete(server, 'The castle', { id_slot: 1 });
            assert.equal(failed.status, 500);
            assert.match(failed.body.error.message, /Compute error/);
            assert.match(server.log(), /no number \(NaN\)/);
        }
        const again = await complete(server, prompts[0], { id_slot: 0, cache_prompt: true });
        assert.deepEqual(again.body.tokens, expected);
        assert.equal(again.body.timings.prompt_n, 1, 'what the other slot held is still there');
        assert.deepEqual((await complete(server, prompts[0], { id_slot: 1 })).body.tokens, expected);
    });
});

test('EmbeddingsThatAreNoNumbersAreAnError', async () => {
    const model = altered('norm.gguf', '--spoil', 'output_norm.weight');
    await with_server(['-m', model, '--embedding', '--pooling', 'mean'], async (server) => {
        assert.equal((await server.ask('/v1/embeddings', { input: 'Hello' })).status, 500);
    });
});

test('ControlTokensInAPromptAreTokens', async () => {
    const model = altered('control.gguf', '--control', '<|im_start|>', '--control', '<|im_end|>');
    await with_server(['-m', model], async (server) => {
        const answer = await complete(server, '<|im_start|><|im_end|><|im_start|><|im_end|>');
        assert.equal(answer.body.timings.prompt_n, 5, 'four, and the one that begins every text');
    });
});

test('NoTokenThatEndsTextIsPutBehindAPrompt', async () => {
    const plain = {};
    await with_server([], async (server) => Object.assign(plain, (await complete(server, prompts[0])).body));
    await with_server(['-m', altered('eos.gguf', '--true', 'tokenizer.ggml.add_eos_token')], async (server) => {
        const answer = (await complete(server, prompts[0])).body;
        assert.equal(answer.timings.prompt_n, plain.timings.prompt_n);
        assert.deepEqual(answer.tokens, plain.tokens);
    });
});

test('APromptThatDoesNotFitTheContextIsRefusedAndTheServerGoesOn', () =>
    with_server(['-c', '256', '--parallel', '1'], async (server) => {
        const refused = await server.ask('/v1/chat/completions', { messages: say('a '.repeat(600)), ...greedy });
        assert.equal(refused.status, 400);
        assert.equal(refused.body.error.type, 'exceed_context_size_error');
        assert.equal((await complete(server, prompts[0])).status, 200);
    }));

test('ATemplateThatDoesNotParseIsSaidAndAnotherCanBeGiven', async () => {
    const model = altered('template.gguf', '--text', 'tokenizer.chat_template={% for m in messages %}{{ m.content }}{% endif %}');
    const words = ['serve', '-m', model, '--port', '0', ...streamed];
    const refused = spawnSync(process.env.SERVER_PROGRAM, words, { encoding: 'utf8', timeout: 60000 });
    assert.equal(refused.status, 1, refused.stderr);
    assert.match(refused.stderr, /template/);
    await with_server(['-m', model, '--chat-template', 'chatml'], async (server) => {
        const answer = await server.ask('/v1/chat/completions', { messages: say('Hello'), ...greedy });
        assert.equal(answer.status, 200);
    });
});

describe('as in llama.cpp', () => {
    test('grammar and stop strings end what is written', () =>
        with_server([], async (server) => {
            assert.match((await complete(server, prompts[0], { grammar: 'root ::= "yes" | "no"' })).body.content, /^(yes|no)$/);
            const { content } = (await complete(server, prompts[0])).body;
            const word = content.trim().split(/\s+/)[2];
            const stopped = (await complete(server, prompts[0], { stop: [word] })).body;
            assert.equal(stopped.content, content.slice(0, content.indexOf(word)));
            assert.equal(stopped.stopping_word, word);
        }));

    test('a cache of 8 bits answers, and is smaller', () =>
        with_server(['-ctk', 'q8_0', '-ctv', 'q8_0', '-fa', 'on'], async (server) => {
            assert.equal((await complete(server, prompts[0])).body.tokens.length, 24);
        }));

    test('an adapter changes the text as far as it is turned on', async () => {
        let plain;
        await with_server([], async (server) => (plain = (await complete(server, prompts[0])).body.tokens));
        const adapter = join(folder, 'adapter.gguf');
        execFileSync(process.env.ALTERED_MODEL, ['--adapter', adapter]);
        await with_server(['--lora', adapter], async (server) => {
            const with_scale = async (scale) => (await complete(server, prompts[0], { lora: [{ id: 0, scale }] })).body.tokens;
            assert.deepEqual(await with_scale(0), plain);
            assert.notDeepEqual(await with_scale(1), plain);
        });
    });

    test('a draft model guesses, and the text is the same', async () => {
        let plain;
        await with_server([], async (server) => (plain = (await complete(server, prompts[0])).body.tokens));
        await with_server(['-md', process.env.SERVED_MODEL, '--spec-type', 'draft-simple'], async (server) => {
            const { tokens, timings } = (await complete(server, prompts[0])).body;
            assert.deepEqual(tokens, plain);
            assert.ok(timings.draft_n > 0);
        });
    });

    test('a repository is fetched once and kept', async () => {
        const hub = await start_hub({ folder: join(folder, 'hub') });
        const file = join(folder, 'hub', 'owner', 'stories', 'tiny-Q4_K_M.gguf');
        mkdirSync(dirname(file), { recursive: true });
        symlinkSync(process.env.SERVED_MODEL, file);
        Object.assign(process.env, { MODEL_ENDPOINT: hub.url, LLAMA_CACHE: join(folder, 'cache') });
        try {
            for (let round = 0; round < 2; ++round) {
                await with_server(['-hf', 'owner/stories'], async (server) => {
                    assert.equal((await complete(server, prompts[0])).status, 200);
                    assert.equal((await server.ask('/sluice/stats')).body.streamed_models.length, 1);
                });
            }
            const fetched = hub.seen.filter((path) => path.startsWith('GET') && path.includes('/resolve/'));
            assert.equal(fetched.length, 1, hub.seen.join('\n'));
        } finally {
            hub.stop();
        }
    });
});
