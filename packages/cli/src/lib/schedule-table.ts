import type { Workspace } from '@platform/contract';
import { ago, roughDuration } from './format.ts';
import type { Columns } from './output.ts';
import { nextAutostart, showAutostart } from './schedule.ts';

const isRunning = (one: Workspace) => one.latest_build.transition === 'start';

/** When workspaces start and stop automatically. */
export const scheduleColumns = {
  workspace: (one) => `${one.owner_name}/${one.name}`,
  'starts at': (one) => showAutostart(one.autostart_schedule),
  'starts next': (one) => {
    const next = isRunning(one) ? undefined : nextAutostart(one.autostart_schedule, Date.now());
    return one.next_start_at ?? (next === undefined ? '' : new Date(next).toISOString());
  },
  'stops after': (one) => (one.ttl_ms ? roughDuration(one.ttl_ms) : ''),
  'stops next': (one) =>
    isRunning(one) && one.latest_build.deadline
      ? `${one.latest_build.deadline} (${ago(one.latest_build.deadline)})`
      : '',
} satisfies Columns<Workspace>;

export const scheduleColumnNames = Object.keys(scheduleColumns) as (keyof typeof scheduleColumns)[];
