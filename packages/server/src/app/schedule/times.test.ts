import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CronTimes, parseCron } from '@ropewalk/kit/cron';
import type { Config } from '../../config/options.ts';
import type { StopRules } from '../../db/queries/deadlines.ts';
import { decide } from './decide.ts';
import { quietHoursOf } from './quiet-hours.ts';
import { dueWorkspace } from './testing/due-workspace.ts';
import { after, FROM, requiredStopOf, timesOf, type ZoneTable, zoneTable } from './testing/model.ts';
import { nextStart, requiredStop, stopTimes, WEEKDAYS } from './times.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const SCHEDULES = 10_000;
/** Random times at which each schedule is compared. Times around clock changes come on top. */
const PROBES = 3;
const YEARS = 2 * 365 * 24 * 60;
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/St_Johns',
  'Australia/Lord_Howe',
  'Africa/Casablanca',
  'Africa/Cairo',
  'Asia/Kolkata',
  'America/Santiago',
  'Pacific/Auckland',
];

/** Random numbers that are the same in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const rules = (more: Partial<StopRules>): StopRules => ({
  owner_id: '',
  ttl_ms: null,
  autostart_schedule: null,
  default_ttl_ms: 0,
  allow_user_autostop: true,
  allow_user_autostart: true,
  autostart_days: [...WEEKDAYS],
  autostop_requirement_days: [],
  autostop_requirement_weeks: 1,
  quiet_hours_schedule: '',
  ...more,
});
const some = (random: (below: number) => number, all: number[]) => {
  const chosen = all.filter(() => random(2) === 0);
  return chosen.length > 0 ? chosen : [all[random(all.length)]!];
};
const ALL = [0, 1, 2, 3, 4, 5, 6];
const day = (n: number) => WEEKDAYS[n]!;
const iso = (minute: number | undefined) =>
  minute === undefined ? undefined : new Date(minute * MINUTE_MS).toISOString();

const daily = (zone: string, hour: number, minute: number) =>
  parseCron(`CRON_TZ=${zone} ${minute} ${hour} * * *`, 'daily') as CronTimes;

/** Times of two years: random ones, and some just around a change of the clock. */
function probesOf(table: ZoneTable, random: (below: number) => number): number[] {
  const probes = Array.from({ length: PROBES }, () => FROM + 31 * 24 * 60 + random(YEARS));
  const change = table.changes.filter((at) => at < FROM + YEARS)[random(Math.max(1, table.changes.length - 2))];
  if (change !== undefined) probes.push(change - random(180), change - 24 * 60 + random(180), change + random(180));
  return probes;
}

test(`${SCHEDULES} random schedules start and stop when a slow model says, over two years`, () => {
  const random = numbers(20_260_302);
  const tables = ZONES.map(zoneTable);
  assert.ok(tables.filter(({ changes }) => changes.length >= 4).length >= 7, 'the zones change their clocks');
  for (let i = 0; i < SCHEDULES; i++) {
    const table = tables[random(tables.length)]!;
    const [hour, minute] = [random(24), random(12) * 5];
    const [days, allowed] = [some(random, ALL), some(random, ALL)];
    const cron = `CRON_TZ=${table.zone} ${minute} ${hour} * * ${days.join(',')}`;
    const start = rules({ autostart_schedule: cron, autostart_days: allowed.map(day) });
    const both = new Set(days.filter((one) => allowed.includes(one)));
    const times = timesOf(table, { hour, minute, days: both });
    const required = new Set(some(random, ALL));
    const weeks = 1 + random(16);
    const stop = { autostop_requirement_days: [...required].map(day), autostop_requirement_weeks: weeks };
    for (const probe of probesOf(table, random)) {
      const now = new Date(probe * MINUTE_MS);
      const says = `${cron} on ${allowed} after ${now.toISOString()}`;
      assert.equal(nextStart(start, now)?.toISOString(), iso(after(times, probe)), says);
      if (random(4) > 0) continue;
      const expected = requiredStopOf(table, { hour, minute }, { days: required, weeks }, probe);
      const found = requiredStop(rules(stop), daily(table.zone, hour, minute), now);
      assert.equal(found?.toISOString(), iso(expected), `${says}, ${[...required]} every ${weeks} weeks`);
    }
  }
});

/** The starts and stops of a workspace, by the list of all times of its schedule. In minutes. */
function expectedLife(
  times: readonly number[],
  ttl: number,
  from: number,
  to: number,
): [start: number, stop: number][] {
  const life: [number, number][] = [];
  let start = times.find((time) => time > from)!;
  while (start < to) {
    const next = times.find((time) => time > start)!;
    const stop = (next < start + ttl ? next : start) + ttl;
    life.push([start, stop]);
    start = times.find((time) => time >= stop)!;
  }
  return life;
}

test('workspaces start and stop for two years, one look after the other, and miss nothing', () => {
  const random = numbers(7);
  const from = FROM + 31 * 24 * 60;
  for (const table of ZONES.map(zoneTable)) {
    const [hour, minute, days] = [random(24), random(60), some(random, ALL)];
    // up to two days, often as long as from one start to the next
    const ttl = (1 + random(8)) * 6 * 60;
    const own = rules({
      autostart_schedule: `CRON_TZ=${table.zone} ${minute} ${hour} * * ${days.join(',')}`,
      ttl_ms: ttl * MINUTE_MS,
    });
    const life: number[] = [];
    let now = new Date(from * MINUTE_MS);
    let row = dueWorkspace({ ...own, transition: 'stop', next_start_at: nextStart(own, now) });
    while (now.getTime() < (from + YEARS) * MINUTE_MS) {
      const { action, until, nextStartAt } = decide(row, now);
      row = { ...row, next_start_at: nextStartAt };
      if (action) {
        life.push(now.getTime() / MINUTE_MS);
        const isStart = action.transition === 'start';
        const { deadline } = isStart ? stopTimes(own, daily('UTC', 0, 0), now) : { deadline: null };
        row = { ...row, transition: isStart ? 'start' : 'stop', deadline, reason: action.reason };
      } else {
        assert.ok(until && until > now, 'each look is later than the one before');
        now = until;
      }
    }
    const times = timesOf(table, { hour, minute, days: new Set(days) });
    const expected = expectedLife(times, ttl, from, from + YEARS + 7 * 24 * 60).flat();
    assert.deepEqual(
      life.map(iso),
      expected.slice(0, life.length).map(iso),
      `${own.autostart_schedule} for ${ttl} minutes`,
    );
    assert.ok(life.length > 100, String(life.length));
  }
});

test('a deadline is the time to live after the start, or after an automatic start that comes before it', () => {
  const quiet = daily('UTC', 3, 0);
  const at = (text: string) => new Date(`2026-03-02T${text}:00Z`);
  const deadline = (more: Partial<StopRules>, now = at('08:00')) => {
    const times = stopTimes(rules(more), quiet, now);
    return [times.deadline, times.maxDeadline].map((time) => time?.toISOString().slice(5, 16) ?? null);
  };
  assert.deepEqual(deadline({}), [null, null]);
  assert.deepEqual(deadline({ ttl_ms: 2 * HOUR_MS }), ['03-02T10:00', null]);
  const schedule = { autostart_schedule: 'CRON_TZ=UTC 0 9 * * *', ttl_ms: 2 * HOUR_MS };
  assert.deepEqual(deadline(schedule), ['03-02T11:00', null]);
  assert.deepEqual(deadline({ ...schedule, allow_user_autostart: false }), ['03-02T10:00', null]);
  const ofTemplate = { allow_user_autostop: false, default_ttl_ms: HOUR_MS, ttl_ms: 5 * HOUR_MS };
  assert.deepEqual(deadline(ofTemplate), ['03-02T09:00', null]);
  const requirement = { autostop_requirement_days: ['tuesday'] };
  assert.deepEqual(deadline(requirement), ['03-03T03:00', '03-03T03:00']);
  assert.deepEqual(deadline({ ...requirement, ttl_ms: 2 * HOUR_MS }), ['03-02T10:00', '03-03T03:00']);
  // less than an hour before quiet hours, the next ones count
  assert.deepEqual(deadline(requirement, new Date('2026-03-03T02:30:00Z')), ['03-10T03:00', '03-10T03:00']);
});

test('people have their own quiet hours only where the installation allows it', () => {
  const config = { defaultQuietHoursSchedule: 'CRON_TZ=UTC 0 1 * * *', allowCustomQuietHours: true } as Config;
  const own = { quiet_hours_schedule: 'CRON_TZ=Europe/Oslo 30 2 * * *' };
  assert.deepEqual([quietHoursOf(config, own).raw, quietHoursOf(config, own).isOwn], [own.quiet_hours_schedule, true]);
  const none = quietHoursOf(config, { quiet_hours_schedule: '' });
  assert.deepEqual([none.raw, none.isOwn], [config.defaultQuietHoursSchedule, false]);
  const fixed = quietHoursOf({ ...config, allowCustomQuietHours: false }, own);
  assert.deepEqual([fixed.raw, fixed.isOwn], [config.defaultQuietHoursSchedule, false]);
});
