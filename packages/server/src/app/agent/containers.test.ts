import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { AgentIdentity } from '../../db/rows.ts';
import { containersSource } from './containers.ts';

test('reads an agent that never stops to send lists of containers at a bounded rate', async () => {
  let lines = 0;
  const line = `${JSON.stringify({ containers: [{ id: 'one' }], more: 'x'.repeat(500_000) })}\n`;
  const flood = new Readable({
    read() {
      lines += 1;
      // not in the same turn, so that the test ends also if everything is read
      setImmediate(() => this.push(line));
    },
  });
  const agent = { owner_id: crypto.randomUUID() } as AgentIdentity;
  const source = await containersSource(agent, async () => flood);
  const stop = source.subscribe(() => {});
  await delay(1_000);
  stop();
  const { messages } = await source.next();
  assert.match(messages[0]!, /"id":"one"/);
  assert.ok(lines <= 15, `${lines} lines in a second`);
});
