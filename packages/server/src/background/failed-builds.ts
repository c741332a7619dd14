import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { notify } from '../app/notification/enqueue.ts';
import { systemTask } from '../authz/proofs.ts';
import { type FailedBuilds, failedBuildsSince, templateAdmins } from '../db/queries/notifications.ts';
import { replaceSiteValue, siteValue } from '../db/queries/site.ts';

const KEY = 'failed_builds_report';
const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** The maximum number of templates that a report names. */
const MAX_NAMED = 5;

/** Once a week, reports to each template admin how many builds of their templates failed, if any did. */
export function failedBuildsTask(services: Services): BackgroundTask[] {
  const name = 'report failed builds';
  return [
    {
      name,
      periodMs: HOUR_MS,
      delayMs: 60_000,
      needsLock: true,
      async run() {
        await reportFailedBuilds(services);
        return undefined;
      },
    },
  ];
}

/** Sends the report if the last one is a week old. The first week begins with the first call. */
export async function reportFailedBuilds(services: Services): Promise<boolean> {
  const { sql, clock } = services;
  const by = systemTask(systemContext(services, 'failed builds'));
  const now = clock.now();
  return sql.begin(async (tx) => {
    const last = new Date(await siteValue(tx, by, KEY, () => now.toISOString()));
    if (now.getTime() - last.getTime() < WEEK_MS) return false;
    // of two servers at a time, one replaces the value and reports
    if (!(await replaceSiteValue(tx, by, KEY, { from: last.toISOString(), to: now.toISOString() }))) return false;
    const failed = await failedBuildsSince(tx, last);
    const byAdmin = new Map<string, FailedBuilds[]>();
    for (const [organizationId, templates] of Map.groupBy(failed, (each) => each.organization_id)) {
      for (const admin of await templateAdmins(tx, organizationId)) {
        byAdmin.set(admin, [...(byAdmin.get(admin) ?? []), ...templates]);
      }
    }
    for (const [admin, templates] of byAdmin) {
      const named = templates
        .toSorted((a, b) => b.count - a.count)
        .slice(0, MAX_NAMED)
        .map(({ name, count }) => `${name} (${count})`);
      await notify(services, tx, {
        template: 'buildsFailedReport',
        to: [admin],
        labels: {
          count: String(templates.reduce((sum, { count }) => sum + count, 0)),
          templates: named.join(', '),
        },
        targets: templates.slice(0, MAX_NAMED).map(({ id }) => id),
        event: `failed builds until ${now.toISOString()}`,
      });
    }
    return true;
  });
}
