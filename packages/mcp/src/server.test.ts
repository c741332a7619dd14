import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { Calls, createMcpServer, MAX_CALLS, MAX_RESULT, PROTOCOL_VERSIONS, type RpcAnswer } from './server.ts';
import { MAX_LINE, serveStdio } from './stdio.ts';
import { optional, type Tool, text, tool } from './tool.ts';
import { KeptOutput } from './tools/bash.ts';
import { TOOLS } from './tools/index.ts';
import { newest } from './tools/logs.ts';
import { applyEdits, unifiedDiff } from './workspace/edit.ts';
import { parseTarget } from './workspace/find.ts';

const never = new AbortController().signal;
const problems: string[] = [];

const echo = tool({
  name: 'echo',
  description: 'Returns its text.',
  args: { text: text('A text.'), more: optional(text('Another one.')) },
  effect: 'read',
  run: async (_ctx, { text }) => text,
});
const wait = tool({
  name: 'wait',
  description: 'Waits until it is canceled.',
  args: {},
  effect: 'read',
  run: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
});
const broken = tool({
  name: 'broken',
  description: 'Fails.',
  args: {},
  effect: 'read',
  run: async () => {
    throw new TypeError('a secret of the server');
  },
});
const big = tool({
  name: 'big',
  description: 'Returns too much.',
  args: {},
  effect: 'read',
  run: async () => 'x'.repeat(MAX_RESULT + 1),
});

const create = (calls = Calls.none(), tools: readonly Tool[] = [echo, wait, broken, big]) =>
  createMcpServer(
    {
      version: 'v1',
      instructions: 'Be kind.',
      tools,
      context: (signal) => ({ signal, client: undefined as never, openSsh: undefined as never, report: undefined }),
      onProblem: (name) => problems.push(name),
    },
    calls,
  );

const request = (id: unknown, method: unknown, params?: unknown) => ({ jsonrpc: '2.0', id, method, params });
const callOf = (id: unknown, name: string, args?: unknown) => request(id, 'tools/call', { name, arguments: args });
// biome-ignore lint/suspicious/noExplicitAny: tests read any field of any answer
const ask = async (message: unknown, server = create()): Promise<any> => server.handle(message, never);

test('the SDK initializes, lists and calls over any transport', async () => {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const server = create();
  ours.onmessage = async (message) => {
    const answer = await server.handle(message, never);
    if (answer) await ours.send(answer as JSONRPCMessage);
  };
  await ours.start();
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(theirs);
  assert.equal(client.getInstructions(), 'Be kind.');
  await client.ping();
  assert.equal((await client.listTools()).tools.length, 4);
  const { content } = await client.callTool({ name: 'echo', arguments: { text: 'hi' } });
  assert.deepEqual(content, [{ type: 'text', text: '"hi"' }]);
  await client.close();
});

test('negotiates the version of the protocol', async () => {
  for (const version of PROTOCOL_VERSIONS)
    assert.equal((await ask(request(1, 'initialize', { protocolVersion: version }))).result.protocolVersion, version);
  const newer = await ask(request(1, 'initialize', { protocolVersion: '2099-01-01' }));
  assert.equal(newer.result.protocolVersion, PROTOCOL_VERSIONS[0]);
  assert.equal((await ask(request(1, 'initialize'))).error.code, -32602);
});

test('answers malformed messages with errors of JSON-RPC', async () => {
  const cases: [unknown, number][] = [
    [null, -32600],
    [5, -32600],
    ['text', -32600],
    [{}, -32600],
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, -32600],
    [request(1, 5), -32600],
    [request(null, 'ping'), -32600],
    [request({}, 'ping'), -32600],
    [request(1.5, 'ping'), -32600],
    [request(1, 'ping', 5), -32602],
    [request(1, 'ping', []), -32602],
    [request(1, 'nothing'), -32601],
    [request(1, '__proto__'), -32601],
    [request(1, 'tools/call'), -32602],
    [callOf(1, 'toString'), -32602],
    [callOf(1, 'none'), -32602],
    [request(1, 'tools/list', { cursor: 'x' }), -32602],
    [[], -32600],
    [Array.from({ length: 17 }, () => request(1, 'ping')), -32600],
  ];
  for (const [message, code] of cases) assert.equal((await ask(message)).error?.code, code, JSON.stringify(message));
  for (const silent of [
    { jsonrpc: '2.0', method: 'x' },
    { jsonrpc: '2.0', id: 1, result: {} },
    [{ jsonrpc: '2.0', method: 'x' }],
  ])
    assert.equal(await ask(silent), undefined);
});

test('what goes wrong in a tool is a result, without what only the log may have', async () => {
  const failing = async (name: string, args?: unknown) => {
    const { result } = await ask(callOf(1, name, args));
    assert.equal(result.isError, true);
    return result.content[0].text as string;
  };
  assert.match(await failing('echo', {}), /text is missing/);
  assert.match(await failing('echo', []), /must be object/);
  assert.match(await failing('echo', null), /must be object/);
  assert.match(await failing('echo', { text: 'x', __proto__x: 1 }), /"__proto__x" is unknown/);
  assert.match(await failing('big'), /longer than/);
  problems.length = 0;
  assert.doesNotMatch(await failing('broken'), /secret/);
  assert.deepEqual(problems, ['broken']);
});

test('a client cancels its own calls, and has a limited number of them', async () => {
  const calls = Calls.none();
  const [one, other] = [create(calls.of('a')), create(calls.of('b'))];
  const mine = ask(callOf(1, 'wait'), one);
  const theirs = ask(callOf(1, 'wait'), other);
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
  assert.equal(await ask(cancel, one), undefined);
  assert.match((await mine).result.content[0].text, /canceled/);
  assert.equal(calls.count, 1, 'the other client has the same id');
  const more = Array.from({ length: MAX_CALLS - 1 }, (_, index) => ask(callOf(index + 2, 'wait'), other));
  const refused = await ask(callOf(99, 'echo', { text: 'x' }), one);
  assert.match(refused.result.content[0].text, /16 calls are running/);
  for (const id of Array.from({ length: MAX_CALLS }, (_, index) => index + 1))
    await ask({ ...cancel, params: { requestId: id } }, other);
  await Promise.all([theirs, ...more]);
  assert.equal(calls.count, 0);
});

/** Runs a server over two streams, and returns its answers. */
async function stdio(input: string | Buffer): Promise<RpcAnswer[]> {
  const [stdin, output] = [new PassThrough(), new PassThrough()];
  let written = '';
  output.on('data', (part) => {
    written += String(part);
  });
  const served = serveStdio(create(), { input: stdin, output, signal: never });
  stdin.end(input);
  await served;
  await new Promise((resolve) => setImmediate(resolve));
  return written
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

test('any bytes on standard input leave the server able to answer', async () => {
  let seed = 42;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return seed % below;
  };
  const valid = JSON.stringify(callOf(7, 'echo', { text: 'x', more: 'é' }));
  const lines: Buffer[] = [];
  for (let round = 0; round < 400; round++) {
    const bytes = Buffer.from(valid);
    for (let changes = random(6); changes >= 0; changes--) bytes[random(bytes.length)] = random(256);
    lines.push(bytes.subarray(0, random(3) === 0 ? random(bytes.length) : bytes.length), Buffer.from('\n'));
  }
  const last = Buffer.from(`${JSON.stringify(request('last', 'ping'))}\n`);
  const answers = await stdio(Buffer.concat([...lines, last]));
  assert.deepEqual(answers.at(-1)?.id === 'last' || answers.some(({ id }) => id === 'last'), true);
  for (const answer of answers) {
    assert.equal(answer.jsonrpc, '2.0');
    assert.ok('result' in answer !== 'error' in answer);
  }
  assert.ok(answers.some((answer) => 'error' in answer && answer.error.code === -32700));
  assert.deepEqual(problems, ['broken'], 'no message is a problem of the server');
});

test('a line that is too long is skipped', async () => {
  const answers = await stdio(`${'x'.repeat(MAX_LINE + 1)}\n${JSON.stringify(request(1, 'ping'))}`);
  assert.deepEqual(
    answers.map((answer) => ('error' in answer ? answer.error.code : answer.id)),
    [-32600, 1],
  );
});

test('every tool has its own name and a schema that models can use', () => {
  assert.equal(new Set(TOOLS.map(({ name }) => name)).size, 33);
  for (const { name, input } of TOOLS) {
    assert.equal(JSON.stringify(input).includes('$ref'), false, name);
    assert.deepEqual((input as { additionalProperties?: unknown }).additionalProperties, false, name);
  }
});

test('reads the names of workspaces in every form', () => {
  const forms: [string, string][] = [
    ['dev', 'me/dev.'],
    ['dev.main', 'me/dev.main'],
    ['ann/dev', 'ann/dev.'],
    ['ann--dev', 'ann/dev.'],
    ['ann/dev.main', 'ann/dev.main'],
    ['ann--dev.main', 'ann/dev.main'],
    ['main.dev.ann', 'ann/dev.main'],
  ];
  for (const [input, expected] of forms) {
    const { owner, workspace, agent } = parseTarget(input);
    assert.equal(`${owner}/${workspace}.${agent}`, expected, input);
  }
  for (const wrong of ['', '/', 'a/', '/a', 'a/b/c', 'a.', '..', 'a/.b', '.'])
    assert.throws(() => parseTarget(wrong), /Invalid workspace/, wrong);
});

test('edits exactly what they name, and shows the difference', () => {
  const before = 'a\nb\nc\nd\ne\nf\ng\nh\n';
  const after = applyEdits('/x', before, [{ search: 'd', replace: '$&\nD' }]);
  assert.equal(after, 'a\nb\nc\n$&\nD\ne\nf\ng\nh\n');
  assert.equal(
    unifiedDiff('/x', before, after),
    '--- /x\n+++ /x\n@@ -1,7 +1,8 @@\n a\n b\n c\n-d\n+$&\n+D\n e\n f\n g\n',
  );
  assert.equal(unifiedDiff('/x', before, before), '');
  assert.throws(() => applyEdits('/x', 'aa', [{ search: 'a', replace: 'b' }]), /occurs 2 times/);
  assert.throws(() => applyEdits('/x', 'aa', [{ search: '', replace: 'b' }]), /is empty/);
});

test('long outputs keep their beginning and their end', () => {
  const output = new KeptOutput(10);
  for (const part of ['01234', '567', '89abc', 'def']) output.add(Buffer.from(part));
  assert.equal(output.text(), '01234\n[6 bytes are left out here.]\nbcdef');
  const lines = newest(['x'.repeat(200_000), 'y'.repeat(200_000), 'z'], true);
  assert.equal(lines.length, 4);
  assert.match(lines[0]!, /1 older lines/);
  assert.match(lines[3]!, /Call the tool again/);
});
