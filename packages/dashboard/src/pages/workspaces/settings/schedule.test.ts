import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatSchedule, parseSchedule, startsBetween, weekBlocks } from './schedule.ts';

test('reads and writes the schedules of the server', () => {
  const schedule = parseSchedule('CRON_TZ=Europe/Dublin 30 9 * * 1-5')!;
  assert.deepEqual(schedule, { zone: 'Europe/Dublin', hour: 9, minute: 30, days: [1, 2, 3, 4, 5] });
  assert.equal(formatSchedule(schedule), 'CRON_TZ=Europe/Dublin 30 9 * * 1,2,3,4,5');
  assert.deepEqual(parseSchedule('0 7 * * fri-mon')!.days, [0, 1, 5, 6]);
  assert.equal(formatSchedule(parseSchedule('0 7 * * *')!), 'CRON_TZ=UTC 0 7 * * *');
  assert.equal(parseSchedule('0 */2 * * *'), undefined);
  assert.equal(parseSchedule(undefined), undefined);
});

test('finds the starts of a week in the zone of the schedule, across a change of the clocks', () => {
  const iso = (times: number[]) => times.map((time) => new Date(time).toISOString());
  const from = Date.parse('2026-03-27T12:00:00Z');
  const berlin = parseSchedule('CRON_TZ=Europe/Berlin 0 9 * * *')!;
  assert.deepEqual(iso(startsBetween(berlin, from, from + 3 * 86_400_000)), [
    '2026-03-28T08:00:00.000Z',
    '2026-03-29T07:00:00.000Z',
    '2026-03-30T07:00:00.000Z',
  ]);
  const kolkata = parseSchedule('CRON_TZ=Asia/Kolkata 0 1 * * 1')!;
  assert.deepEqual(iso(startsBetween(kolkata, from, from + 7 * 86_400_000)), ['2026-03-29T19:30:00.000Z']);
});

test('draws runs over midnight on both days, and starts nothing that runs', () => {
  const day = 86_400_000;
  const midnights = [0, 1, 2, 3].map((at) => at * day);
  const schedule = parseSchedule('0 20 * * *')!;
  assert.deepEqual(weekBlocks(schedule, day / 4, midnights, undefined, 0).slice(0, 2), [
    { day: 0, from: 20 / 24, to: 1 },
    { day: 1, from: 0, to: 2 / 24 },
  ]);
  const running = weekBlocks(schedule, day / 4, midnights, { from: 0, to: undefined }, 0);
  assert.deepEqual(
    running.map(({ from, to }) => [from, to]),
    [
      [0, 1],
      [0, 1],
      [0, 1],
    ],
  );
});
