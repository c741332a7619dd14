import { may } from '../../authz/authorize.ts';
import type { DaemonRow } from '../../db/queries/daemons.ts';
import { userById } from '../../db/queries/users.ts';
import type { Services } from '../context.ts';
import { actorOf } from '../session.ts';

/**
 * Which of these daemons would not be let in any more: their key is deleted; the user is gone, suspended, or lost the
 * right to run daemons of that scope. The pre-shared key and the built-in daemons' secret last as long as the server.
 */
export async function withoutCredential(
  { sql }: Services,
  daemons: Iterable<DaemonRow>,
): Promise<Set<DaemonRow['id']>> {
  const byKey = new Map<string, DaemonRow[]>();
  const byUser = new Map<string, DaemonRow[]>();
  for (const daemon of daemons) {
    const [kind, id] = daemon.credential.split(':') as [string, string];
    const group = kind === 'key' ? byKey : kind === 'user' ? byUser : undefined;
    if (group) group.set(id, [...(group.get(id) ?? []), daemon]);
  }
  const gone = new Set<string>();
  const lost = (rows: DaemonRow[] = []) => {
    for (const { id } of rows) gone.add(id);
  };
  if (byKey.size > 0) {
    const ids = [...byKey.keys()];
    const kept = await sql<{ id: string }[]>`SELECT id FROM provisioner_keys WHERE id = ANY(${ids}::uuid[])`;
    for (const { id } of kept) byKey.delete(id);
    for (const rows of byKey.values()) lost(rows);
  }
  for (const [id, rows] of byUser) {
    const user = await userById(sql, id);
    const actor = user && user.status !== 'suspended' ? actorOf(user, { id: '', scope: 'all' }) : undefined;
    lost(rows.filter((row) => !actor || !may(actor, 'create', daemonObject(row, id))));
  }
  return gone;
}

/** A daemon as the policy knows it. */
export function daemonObject(daemon: Pick<DaemonRow, 'organization_id' | 'tags'>, userId: string) {
  return {
    type: 'provisioner_daemon',
    organizationId: daemon.organization_id,
    ...(daemon.tags['scope'] === 'user' ? { ownerId: userId } : {}),
  } as const;
}
