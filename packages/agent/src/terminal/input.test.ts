import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@ropewalk/kit';
import { TerminalInputParser } from './input.ts';
import { Scrollback } from './scrollback.ts';

/** Returns a repeatable generator. The message of a failure contains the seed. */
function random(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
    return (state >> 8) % below;
  };
}

test('returns messages as they were sent, however the bytes are cut', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const pick = random(seed);
    const pieces = ['{', '}', '"', '\\', '\u{1f600}', 'é', '\n', 'ls\r', '[', ']', '\x1b[A', ' '];
    const sent = Array.from({ length: 1 + pick(6) }, () => ({
      ...(pick(3) ? { data: Array.from({ length: pick(20) }, () => pieces[pick(pieces.length)]).join('') } : {}),
      ...(pick(3) ? {} : { height: 1 + pick(100), width: 1 + pick(300) }),
    }));
    const bytes = Buffer.from(sent.map((one) => JSON.stringify(one)).join(['', '\n', '  '][pick(3)]));
    const parser = new TerminalInputParser();
    const got = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + pick(9);
      got.push(...parser.write(bytes.subarray(at, end)));
      at = end;
    }
    assert.deepEqual(got, sent, `seed ${seed}`);
  }
});

test('arbitrary bytes give messages or an AppError, never another error', () => {
  for (let seed = 1; seed <= 2_000; seed++) {
    const pick = random(seed);
    const alphabet = '{}"\\:, dataheightwidth0123nul[]\n\xff\0';
    const parser = new TerminalInputParser();
    try {
      for (let i = 0; i < 30; i++) {
        const text = Array.from({ length: pick(12) }, () => alphabet[pick(alphabet.length)]).join('');
        for (const input of parser.write(Buffer.from(text, 'latin1'))) {
          assert.ok(input.data === undefined || typeof input.data === 'string');
          assert.ok(input.height === undefined || Number.isInteger(input.height));
        }
      }
    } catch (err) {
      assert.ok(err instanceof AppError, `seed ${seed}: ${err}`);
    }
  }
});

test('rejects a message without an end at the size limit', () => {
  const parser = new TerminalInputParser();
  parser.write(Buffer.from('{"data":"'));
  assert.throws(() => {
    for (let i = 0; i < 100; i++) parser.write(Buffer.alloc(64 * 1024, 0x61));
  }, /too large: the limit is/);
});

test('scrollback keeps the newest output, from the start of a line', () => {
  const past = new Scrollback(100);
  for (let i = 0; i < 1_000; i++) past.add(Buffer.from(`line ${i}\n`));
  const lines = past.replay().toString().split('\n');
  assert.deepEqual(lines.slice(-3), ['line 998', 'line 999', '']);
  assert.match(lines[0]!, /^line \d+$/);
  assert.ok(past.replay().length <= 100);
  assert.equal(past.replay(20).toString(), 'line 998\nline 999\n');
});
