import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AppError } from '@ropewalk/kit/errors';
import { eventually } from '@ropewalk/testkit';
import { writeNetworkInfo } from './network-info.ts';

test('shows an editor a latency that was measured, and keeps the last one', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'network-info-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  let measured = 0;
  const answers = [undefined, undefined, 12.5, undefined];
  const trips = {
    async measure() {
      const answer = answers[measured++];
      if (answer === undefined) throw new AppError('timeout', 'No answer.');
      // nothing is there for an editor yet
      assert.deepEqual(readdirSync(dir), []);
      return answer;
    },
    close() {},
  };
  const via = 'coder.example.com';
  const stop = writeNetworkInfo({ sent: 0, received: 0 }, { dir, pid: 7, intervalMs: 1, via: () => via, trips });
  t.after(stop);
  await eventually('the latency was asked for again', async () => measured > answers.length);
  const info = JSON.parse(readFileSync(join(dir, '7.json'), 'utf8')) as Record<string, unknown>;
  assert.equal(info['latency'], 12.5);
  assert.deepEqual(info['derp_latency'], { [via]: 12.5 });
  await stop();
  assert.deepEqual(readdirSync(dir), []);
});
