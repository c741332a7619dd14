import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextAutostart, parseAutostart, showAutostart } from './schedule.ts';

test('turns times of day, days and zones into a weekly cron schedule', () => {
  const cases: [string, string][] = [
    ['9:30AM Mon-Fri Europe/Dublin', 'CRON_TZ=Europe/Dublin 30 9 * * 1-5'],
    ['9AM Mon-Fri GMT', 'CRON_TZ=GMT 0 9 * * 1-5'],
    ['9AM CET Mon,Sat', 'CRON_TZ=CET 0 9 * * 1,6'],
    ['9AM EST5EDT', 'CRON_TZ=EST5EDT 0 9 * * *'],
    ['9AM Sun japan', 'CRON_TZ=Japan 0 9 * * 0'],
    ['12am sun UTC', 'CRON_TZ=UTC 0 0 * * 0'],
    ['12:05pm mon,wed America/New_York', 'CRON_TZ=America/New_York 5 12 * * 1,3'],
    ['17:00 UTC', 'CRON_TZ=UTC 0 17 * * *'],
    ['CRON_TZ=UTC 0 9 * * 1-5', 'CRON_TZ=UTC 0 9 * * 1-5'],
  ];
  for (const [text, cron] of cases) assert.equal(parseAutostart(text.split(' ')), cron);
  for (const text of ['25:00', '9', '13pm', '9:30AM Someday', '9:75AM']) {
    assert.throws(() => parseAutostart(text.split(' ')), /Invalid time|Invalid days or time zone/, text);
  }
});

test('shows schedules as people write them', () => {
  assert.equal(showAutostart('CRON_TZ=Europe/Dublin 30 9 * * 1-5'), '9:30AM Mon-Fri (Europe/Dublin)');
  assert.equal(showAutostart('CRON_TZ=UTC 0 0 * * *'), '12:00AM daily (UTC)');
  assert.equal(showAutostart(undefined), '');
});

test('finds the next start in its zone, across a change to summer time', () => {
  const at = (schedule: string, after: string) => nextAutostart(schedule, Date.parse(after));
  assert.equal(at('CRON_TZ=UTC 30 9 * * 1-5', '2026-01-02T09:30:00Z'), '2026-01-05T09:30:00.000Z');
  assert.equal(at('CRON_TZ=UTC 30 9 * * *', '2026-01-02T09:29:59Z'), '2026-01-02T09:30:00.000Z');
  assert.equal(at('CRON_TZ=Europe/Berlin 0 9 * * 0', '2026-03-28T12:00:00Z'), '2026-03-29T07:00:00.000Z');
  assert.equal(at('CRON_TZ=Asia/Kolkata 0 9 * * *', '2026-01-01T00:00:00Z'), '2026-01-01T03:30:00.000Z');
});
