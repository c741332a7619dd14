import { type CronTimes, parseCron } from '@ropewalk/kit/cron';
import type { Config } from '../../config/options.ts';

/** When a person's workspaces may be stopped for maintenance: the person's own time, or the installation's. */
export function quietHoursOf(
  config: Config,
  { quiet_hours_schedule: own }: { quiet_hours_schedule: string },
): { raw: string; schedule: CronTimes; isOwn: boolean } {
  const isOwn = config.allowCustomQuietHours && own !== '';
  const raw = isOwn ? own : config.defaultQuietHoursSchedule;
  return { raw, schedule: parseCron(raw.trim(), 'daily') as CronTimes, isOwn };
}
