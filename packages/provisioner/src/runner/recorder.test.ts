// own process: measures its memory

import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { eventually } from '@ropewalk/testkit/wait';
import { DEFAULT_LIMITS, MAX_LINE, Recorder } from './recorder.ts';
import { type LogRecord, readRecords } from './tail.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rec-'));
});
after(() => rm(dir, { recursive: true, force: true }));

async function records(path: string): Promise<LogRecord[]> {
  const out: LogRecord[] = [];
  for await (const record of readRecords(path, 0)) out.push(record);
  return out;
}

test('records 100 MB of output in a file of limited size, with head, events, tail and the cut, without growing memory', async () => {
  const path = join(dir, 'loud.log');
  const recorder = new Recorder(path);
  const event = '{"@level":"info","@message":"made","type":"apply_complete","hook":{}}\n';
  function* loud() {
    const megabyte = Buffer.from(`${'x'.repeat(1023)}\n`.repeat(1024));
    yield Buffer.from('the head\n');
    for (let i = 0; i < 100; i++) {
      yield megabyte;
      yield Buffer.from(event);
    }
    yield Buffer.from('the tail');
  }
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const held = () => {
    gc();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = held();
  await recorder.consume(Readable.from(loud(), { objectMode: true }), 'o');
  await recorder.close();
  // The garbage collector frees buffers concurrently, so one check is not enough.
  await eventually('the memory to be free', () => held() - before < 10 << 20, 5_000);
  const { size } = await stat(path);
  assert.ok(size < DEFAULT_LIMITS.head + DEFAULT_LIMITS.tail + (1 << 20), `${size}`);
  const found = await records(path);
  assert.equal(found[0]?.text, 'the head');
  assert.equal(found.at(-1)?.text, 'the tail');
  assert.equal(found.filter(({ text }) => text.includes('apply_complete')).length, 100);
  assert.equal(found.filter(({ kind, text }) => kind === 'n' && /lines .* left out/.test(text)).length, 1);
});

test('cuts an endless line and notes that, and keeps an empty line and split characters', async () => {
  const path = join(dir, 'long.log');
  const recorder = new Recorder(path);
  const umlaut = Buffer.from('ü\n');
  const parts = [Buffer.alloc(3 * MAX_LINE, 'y'), Buffer.from('\n\n'), umlaut.subarray(0, 1), umlaut.subarray(1)];
  await recorder.consume(Readable.from(parts, { objectMode: true }), 'e');
  await recorder.close();
  const found = await records(path);
  assert.equal(found.length, 3);
  assert.match(found[0]!.text, /y … \(131072 bytes of this line cut\)$/);
  assert.deepEqual(
    found.slice(1).map(({ kind, text }) => [kind, text]),
    [
      ['e', ''],
      ['e', 'ü'],
    ],
  );
  const rest: string[] = [];
  for await (const { text } of readRecords(path, found[1]!.next)) rest.push(text);
  assert.deepEqual(rest, ['ü']);
});
