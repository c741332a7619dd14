import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { isAppError } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit';
import { createPool, type Pool, type PoolOptions } from './pool.ts';

/** A thread whose tasks are named by their behavior. Each takes a text and returns it. */
const THREAD = `
  const { parentPort } = require('node:worker_threads');
  parentPort.on('message', ({ input }) => {
    const end = performance.now() + (input.ms ?? 0);
    while (performance.now() < end);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, input.idleMs ?? 0);
    const kept = [];
    while (input.memory) kept.push({ a: kept.length, b: [kept.length] });
    if (input.fails) throw new Error('secret');
    parentPort.postMessage({ value: input.text });
  });
  parentPort.postMessage('ready');
`;

interface Input {
  text: string;
  ms?: number;
  /** How long the thread gets no processor, in ms. */
  idleMs?: number;
  memory?: boolean;
  fails?: boolean;
}
const pools: Pool[] = [];
const broken: string[] = [];
function pool(options: Partial<PoolOptions> = {}) {
  const made = createPool({
    start: ({ memoryMb }) => new Worker(THREAD, { eval: true, resourceLimits: { maxOldGenerationSizeMb: memoryMb } }),
    broke: (err) => broken.push(err.message),
    threads: 1,
    budgetMs: 10_000,
    memoryMb: 64,
    idleMs: 10_000,
    mostWaitingEach: 4,
    mostWaiting: 6,
    ...options,
  });
  pools.push(made);
  const run = (person: string, input: Input | (() => Promise<Input>), signal?: AbortSignal, bytes?: number) =>
    (made.run as unknown as (name: string, given: typeof input, by: object) => Promise<string>)('any', input, {
      person,
      what: 'Counting',
      signal,
      bytes,
    });
  return { pool: made, run };
}
after(() => Promise.all(pools.map((one) => one.close())));

const rejection = (code: string, message: RegExp) => (err: unknown) =>
  isAppError(err) && err.code === code && message.test(err.message);

test('ends a task that exceeds its time, and runs the next one', async () => {
  const { run } = pool({ budgetMs: 300 });
  const over = run('a', { text: 'x', ms: 60_000 });
  const next = run('b', { text: 'y' });
  await assert.rejects(over, rejection('invalid', /^Counting took more than 0.3 seconds\.$/));
  assert.equal(await next, 'y');
});

test('gives a task more time that gets no processor, but not for ever', async () => {
  const { run } = pool({ budgetMs: 300 });
  assert.equal(await run('a', { text: 'x', idleMs: 450 }), 'x');
  await assert.rejects(run('a', { text: 'x', idleMs: 60_000 }), rejection('invalid', /took more than 0.3 seconds/));
});

test('ends a task that exceeds its memory, and runs the next one', async () => {
  const { run } = pool({ memoryMb: 32 });
  await assert.rejects(run('a', { text: 'x', memory: true }), rejection('invalid', /more than 32 MB of memory/));
  assert.equal(await run('a', { text: 'y' }), 'y');
});

test('an unexpected error in a thread is logged but not shown to the caller', async () => {
  const { run } = pool();
  broken.length = 0;
  await assert.rejects(run('a', { text: 'x', fails: true }), rejection('internal', /^Counting failed\.$/));
  assert.deepEqual(broken, ['secret'], 'the operator sees the error');
  assert.equal(await run('a', { text: 'y' }), 'y');
});

test('a person has one task running, even with idle threads, and takes turns with others', async () => {
  const { run, pool: made } = pool({ threads: 2 });
  const order: string[] = [];
  const ended = (text: string) => (value: string) => order.push(`${text}:${value}`);
  const mine = ['1', '2', '3'].map((text) => run('a', { text, ms: 100 }).then(ended('a')));
  await eventually('a thread starts', () => made.threads === 1);
  const others = ['1', '2'].map((text) => run('b', { text, ms: 10 }).then(ended('b')));
  await Promise.all([...mine, ...others]);
  assert.ok(order.indexOf('b:2') < order.indexOf('a:3'), order.join(' '));
  assert.deepEqual(
    order.filter((one) => one.startsWith('a')),
    ['a:1', 'a:2', 'a:3'],
  );
});

test('limits the waiting tasks of one person and of all', async () => {
  const { run } = pool();
  await run('a', { text: 'the thread is there' });
  const running = run('a', { text: 'x', ms: 200 });
  const waiting = [1, 2, 3, 4].map(() => run('a', { text: 'x' }));
  await assert.rejects(run('a', { text: 'x' }), rejection('rate_limited', /Too many of your requests/));
  const others = ['b', 'c'].map((person) => run(person, { text: person }));
  await assert.rejects(run('d', { text: 'x' }), rejection('rate_limited', /Too many requests are waiting/));
  await Promise.all([running, ...waiting, ...others]);
});

test('does not run a task whose caller left before it began', async () => {
  const { run } = pool();
  const running = run('a', { text: 'x', ms: 100 });
  const controller = new AbortController();
  const left = run('a', { text: 'y', ms: 60_000 }, controller.signal);
  controller.abort();
  await assert.rejects(left, rejection('canceled', /closed the connection/));
  await running;
  assert.equal(await run('a', { text: 'z' }), 'z');
});

test('threads end when idle and on close', async () => {
  const { run, pool: made } = pool({ idleMs: 50 });
  assert.equal(made.threads, 0);
  assert.equal(await run('a', { text: 'x' }), 'x');
  await eventually('the thread ended', () => made.threads === 0);
  const open = run('a', { text: 'x', ms: 60_000 });
  const waits = run('a', { text: 'x' });
  await Promise.all([
    assert.rejects(open, rejection('unavailable', /shutting down/)),
    assert.rejects(waits, rejection('unavailable', /shutting down/)),
    made.close(),
  ]);
  await assert.rejects(run('a', { text: 'x' }), rejection('unavailable', /shutting down/));
});

test('an input that never arrives does not block a thread forever', async () => {
  const { run } = pool({ inputMs: 100 });
  const late = Promise.withResolvers<Input>();
  const over = run('a', () => late.promise);
  const next = run('b', { text: 'y' });
  await assert.rejects(over, rejection('unavailable', /Counting could not start: its data took too long/));
  assert.equal(await next, 'y');
  late.resolve({ text: 'x' });
  assert.equal(await run('a', { text: 'z' }), 'z');
  await assert.rejects(
    run('a', () => Promise.reject(new Error('gone'))),
    /gone/,
  );
  assert.equal(await run('a', { text: 'z' }), 'z');
});

test('limits the bytes of waiting tasks, of one person and of all', async () => {
  const { run } = pool({ mostBytesEach: 100, mostBytes: 150 });
  const mine = run('a', { text: 'x', ms: 200 }, undefined, 60);
  await assert.rejects(run('a', { text: 'x' }, undefined, 41), rejection('rate_limited', /contain too much data/));
  const other = run('b', { text: 'x' }, undefined, 90);
  await assert.rejects(run('c', { text: 'x' }, undefined, 1), rejection('rate_limited', /Too many requests/));
  await Promise.all([mine, other]);
  assert.equal(await run('a', { text: 'x' }, undefined, 100), 'x');
});

test('a thread that cannot be started fails only the waiting tasks', async () => {
  let broken = true;
  const { run } = pool({
    start: () => {
      if (broken) throw new Error('no thread');
      return new Worker(THREAD, { eval: true });
    },
  });
  await assert.rejects(run('a', { text: 'x' }), rejection('unavailable', /could not start to process the request/));
  broken = false;
  assert.equal(await run('a', { text: 'x' }), 'x');
});
