import { audit } from '../app/audit-entries/audit.ts';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { makeDormant } from '../db/queries/users.ts';

const PERIOD_MS = 15 * 60_000;

/**
 * Makes accounts dormant whose people have not used the server for a long time (--dormancy-threshold). They keep all
 * they have. Signing in, or using a session or a token, makes them active again. How many accounts it changed.
 */
export async function findDormantUsers(services: Services): Promise<number> {
  const { sql, clock, config, events } = services;
  const system = systemContext(services, 'dormant users');
  const since = new Date(clock.now().getTime() - config.dormancyThreshold);
  return sql.begin(async (tx) => {
    const changed = await makeDormant(tx, systemTask(system), since);
    for (const { before, after } of changed) {
      await audit(system, tx, {
        resourceType: 'user',
        resourceId: after.id,
        target: after.username,
        action: 'write',
        before,
        after,
        fields: { automatic_actor: 'coder', automatic_subsystem: 'dormancy' },
      });
    }
    if (changed.length > 0) await events.publish(tx, 'revoked', { user_ids: changed.map(({ after }) => after.id) });
    return changed.length;
  });
}

export function dormantUsersTask(services: Services): BackgroundTask[] {
  if (services.config.dormancyThreshold <= 0) return [];
  return [
    {
      name: 'dormant users',
      periodMs: PERIOD_MS,
      needsLock: true,
      async run() {
        const count = await findDormantUsers(services);
        if (count > 0) services.log.info('made the accounts of absent people dormant', { count });
        return undefined;
      },
    },
  ];
}
