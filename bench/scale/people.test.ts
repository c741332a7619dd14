import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from './histogram.ts';
import { mergeReports } from './people.ts';

function reportOf(name: string, times: readonly number[], counts: Record<string, number>, errors: number) {
  const histogram = new Histogram();
  for (const ms of times) histogram.record(ms);
  return { times: { [name]: histogram.toJSON() }, counts, errors, reasons: errors > 0 ? [`${name} failed`] : [] };
}

test('merges what several processes of people report', () => {
  const merged = mergeReports([
    reportOf('api', [1, 1, 1], { change: 2 }, 0),
    reportOf('api', [100], { change: 1, ping: 4 }, 2),
    reportOf('ssh', [5], {}, 1),
  ]);
  assert.equal(merged.times.get('api')!.count, 4);
  assert.equal(merged.times.get('api')!.percentile(1), 100);
  assert.equal(merged.times.get('ssh')!.count, 1);
  assert.deepEqual(merged.counts, { change: 3, ping: 4 });
  assert.equal(merged.errors, 3);
  assert.deepEqual(merged.reasons, ['api failed', 'ssh failed']);
});
