import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextRun, parseCron } from './cron.ts';

const next = (text: string, after: string) => {
  const found = nextRun(parseCron(text), new Date(after));
  if (!found) return undefined;
  const two = (n: number) => String(n).padStart(2, '0');
  const date = `${found.getFullYear()}-${two(found.getMonth() + 1)}-${two(found.getDate())}`;
  return `${date}T${two(found.getHours())}:${two(found.getMinutes())}:${two(found.getSeconds())}`;
};

test('the next time of a schedule, in local time', () => {
  const after = '2026-01-30T10:15:30';
  assert.equal(next('* * * * * *', after), '2026-01-30T10:15:31');
  assert.equal(next('0 */5 * * * *', after), '2026-01-30T10:20:00');
  assert.equal(next('30 9 * * 1-5', after), '2026-02-02T09:30:00');
  assert.equal(next('0 0 0 29 feb *', after), '2028-02-29T00:00:00');
  assert.equal(next('0 0 22 * * MON-FRI', after), '2026-01-30T22:00:00');
  assert.equal(next('0 0 0 13 * 5', '2026-02-01T00:00:00'), '2026-02-06T00:00:00', 'either day');
  assert.equal(next('0 0 0 * * 7', after), '2026-02-01T00:00:00', '7 is Sunday');
  assert.equal(next('@hourly', after), '2026-01-30T11:00:00');
  assert.equal(next('@every 90s', after), '2026-01-30T10:17:00');
  assert.equal(next('0 0 0 30 2 *', after), undefined);
});

test('bad schedules are refused', () => {
  for (const text of [
    '',
    '* * *',
    '60 * * * * *',
    '* * * * * * *',
    'a * * * *',
    '5-1 * * * *',
    '*/0 * * * *',
    '@every 1ms',
  ])
    assert.throws(() => parseCron(text), /Invalid/, text);
});
