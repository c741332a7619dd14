import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { framedMessages, frameMessage } from './framed-messages.ts';

async function read(pieces: readonly Buffer[], maxBytes: number): Promise<string[]> {
  const [near, far] = duplexPair();
  for (const piece of pieces) near.write(piece);
  near.end();
  const texts: string[] = [];
  for await (const message of framedMessages(far, maxBytes)) texts.push(message.toString());
  return texts;
}

test('reads messages that are cut anywhere, empty ones included', async () => {
  const texts = ['one', '', 'x'.repeat(100), 'last'];
  const all = Buffer.concat(texts.map((text) => frameMessage(Buffer.from(text))));
  assert.deepEqual(await read([all], 100), texts);
  assert.deepEqual(
    await read(
      Array.from(all, (_, at) => all.subarray(at, at + 1)),
      100,
    ),
    texts,
  );
});

test('rejects a message that is too long before it arrives', async () => {
  await assert.rejects(read([frameMessage(Buffer.alloc(101)).subarray(0, 4)], 100), RangeError);
});
