import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cronError, lacksSeconds, nextRun, parseCron } from './cron.ts';

const next = (text: string, after: string) => {
  const found = nextRun(parseCron(text, 'script'), new Date(after));
  if (!found) return undefined;
  const two = (n: number) => String(n).padStart(2, '0');
  const date = `${found.getFullYear()}-${two(found.getMonth() + 1)}-${two(found.getDate())}`;
  return `${date}T${two(found.getHours())}:${two(found.getMinutes())}:${two(found.getSeconds())}`;
};

test('the next time of a schedule, in local time', () => {
  const after = '2026-01-30T10:15:30';
  assert.equal(next('* * * * * *', after), '2026-01-30T10:15:31');
  assert.equal(next('0 */5 * * * *', after), '2026-01-30T10:20:00');
  assert.equal(next('0 30 9 * * 1-5', after), '2026-02-02T09:30:00');
  assert.equal(next('0 0 0 29 feb *', after), '2028-02-29T00:00:00');
  assert.equal(next('0 0 22 * * MON-FRI', after), '2026-01-30T22:00:00');
  assert.equal(next('0 0 0 13 * 5', '2026-02-01T00:00:00'), '2026-02-06T00:00:00', 'either day');
  assert.equal(next('30 15 10 * *', after), '2026-01-31T10:15:30', 'five fields begin with the second');
  assert.equal(next('@hourly', after), '2026-01-30T11:00:00');
  assert.equal(next('@every 90s', after), '2026-01-30T10:17:00');
  assert.equal(next('0 0 0 30 2 *', after), undefined);
});

// What upstream's provider accepts and rejects.
test('accepts the schedules of scripts that upstream accepts, and no others', () => {
  for (const good of [
    '0 */5 8-18 * * mon-fri',
    '0,30 0 0 1 JAN *',
    '@daily',
    '*/10 * * * * *',
    '0 0 0 ? * 1/2',
    '*/5 * * * *',
    '* * * * jan',
    'CRON_TZ=UTC 0 * * * * *',
    'TZ=Europe/Berlin 0 0 8 * * *',
    'TZ= 0 * * * * *',
    'CRON_TZ=Local * * * * *',
    'CRON_TZ=UTC @daily',
    '@every 1h30m',
    '@every -5s',
    '@every 0s',
    '1,2,,3 * * * * *',
    '+1 08 * * * *',
    '*-5 * * * * *',
    '*/61 * * * * *',
  ])
    assert.equal(cronError(good, 'script'), undefined, good);
  for (const bad of [
    '',
    ' ',
    '0 0 0 *',
    '0 0 0 * * * *',
    '60 * * * * *',
    '0 0 0 * * 7',
    '0 5-1 * * * *',
    '0 */0 * * * *',
    'a * * * * *',
    '0 0 * * * Sunday',
    '1/2/3 * * * * *',
    '1-2-3 * * * * *',
    '5-* * * * * *',
    '-1 * * * * *',
    'TZ=UTC',
    'TZ=Nowhere 0 * * * * *',
    'CRON_TZ=utc 0 * * * * *',
    'TZ=+01:00 0 * * * * *',
    'tz=UTC 0 * * * * *',
    '@every 90x',
    '@every 1',
    '@every 1d',
    '@every',
    '@every ',
    '@Daily',
    '@daily ',
    ' @daily',
    '@reboot',
  ])
    assert.notEqual(cronError(bad, 'script'), undefined, bad);
  assert.deepEqual(['*/5 * * * *', '0 0 0 1 *', '* * * * jan', '0 * * * * *'].map(lacksSeconds), [
    true,
    false,
    false,
    false,
  ]);
});

test('accepts the schedules of prebuilt workspaces that upstream accepts, and no others', () => {
  for (const good of ['* 8-18 * * 1-5', '* 8 * * MON-FRI', '* */2 * jan *', ' *  +8, ? * ?', '* *-8 * * sun'])
    assert.equal(cronError(good, 'prebuild'), undefined, good);
  for (const bad of [
    '0 8 * * *',
    '*/1 8 * * *',
    '* 24 * * *',
    '* 8 0 * *',
    '* 8 * * 7',
    '* 8 * *',
    '@daily',
    '* 1W * * *',
  ])
    assert.notEqual(cronError(bad, 'prebuild'), undefined, bad);
});

test('accepts a single time of day for weekly and daily schedules', () => {
  for (const good of [
    'CRON_TZ=Europe/Dublin 30 9 * * 1-5',
    '0 0 * * *',
    '5 12 * * MON,wed',
    'CRON_TZ=UTC 30 9 * * mon-fri',
  ]) {
    assert.equal(cronError(good, 'weekly'), undefined, good);
  }
  for (const bad of [
    '30 9 * * BANANA',
    '30 9 * * 7',
    '60 9 * * 1',
    '30 24 * * 1',
    '* 9 * * 1',
    '30 9-17 * * 1',
    '30 9 1 * *',
  ]) {
    assert.notEqual(cronError(bad, 'weekly'), undefined, bad);
  }
  assert.equal(cronError('CRON_TZ=Asia/Kolkata 0 2 * * *', 'daily'), undefined);
  assert.match(cronError('0 2 * * 1', 'daily') ?? '', /day of week must be \*/);
  assert.match(cronError('CRON_TZ=Nowhere/None 0 2 * * *', 'daily') ?? '', /not a time zone/);
});

test('the next time in a zone, across clock changes', () => {
  const at = (text: string, after: string) =>
    nextRun(parseCron(text, 'weekly'), new Date(after), 'UTC')?.toISOString().slice(0, 16);
  assert.equal(at('30 9 * * 1-5', '2026-01-02T09:30:00Z'), '2026-01-05T09:30');
  assert.equal(at('CRON_TZ=Europe/Berlin 0 9 * * 0', '2026-03-28T12:00:00Z'), '2026-03-29T07:00');
  // 02:30 does not exist on that day: the first moment afterwards, and the next day as usual
  assert.equal(at('CRON_TZ=Europe/Berlin 30 2 * * *', '2026-03-29T00:00:00Z'), '2026-03-29T01:30');
  assert.equal(at('CRON_TZ=Europe/Berlin 30 2 * * *', '2026-03-29T01:30:00Z'), '2026-03-30T00:30');
  // 02:30 exists twice on that day: once
  assert.equal(at('CRON_TZ=Europe/Berlin 30 2 * * *', '2026-10-25T00:00:00Z'), '2026-10-25T00:30');
  assert.equal(at('CRON_TZ=Europe/Berlin 30 2 * * *', '2026-10-25T00:30:00Z'), '2026-10-26T01:30');
  const everyHour = parseCron('CRON_TZ=Europe/Berlin 0 0 * * * *', 'script');
  assert.equal(nextRun(everyHour, new Date('2026-10-25T00:00:00Z'))?.toISOString(), '2026-10-25T01:00:00.000Z');
});
