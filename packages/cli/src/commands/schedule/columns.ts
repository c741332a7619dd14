import type { Workspace } from '@ropewalk/contract';
import { roughDuration } from '../../lib/format.ts';
import type { Columns } from '../../lib/output.ts';
import { nextAutostart, showAutostart } from '../../lib/schedule.ts';

const isRunning = (one: Workspace) => one.latest_build.transition === 'start';

/** A time in the zone of this machine, such as `2026-03-02T09:30:00+01:00`. */
function localTime(time: string | undefined | null): string {
  if (!time) return '';
  const local = Temporal.Instant.from(time).toZonedDateTimeISO(Temporal.Now.timeZoneId());
  return local.toString({ timeZoneName: 'never', smallestUnit: 'second' }).replace(/\+00:00$/, 'Z');
}

/** When workspaces start and stop automatically. */
export const scheduleColumns = {
  workspace: (one) => `${one.owner_name}/${one.name}`,
  'starts at': (one) => showAutostart(one.autostart_schedule),
  'starts next': (one) => localTime(one.next_start_at ?? nextAutostart(one.autostart_schedule, Date.now())),
  'stops after': (one) => (one.ttl_ms ? roughDuration(one.ttl_ms) : ''),
  'stops next': (one) => (isRunning(one) ? localTime(one.latest_build.deadline) : ''),
} satisfies Columns<Workspace>;

export const scheduleColumnNames = Object.keys(scheduleColumns) as (keyof typeof scheduleColumns)[];

/** A schedule as the JSON output shows it. */
export const scheduleRow = (one: Workspace): Record<string, string> =>
  Object.fromEntries(scheduleColumnNames.map((name) => [name.replace(' ', '_'), scheduleColumns[name](one)]));
