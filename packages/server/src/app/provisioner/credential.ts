import { may } from '../../authz/authorize.ts';
import { type ApiKeyRow, touchApiKey } from '../../db/queries/apikeys.ts';
import type { DaemonRow } from '../../db/queries/daemons.ts';
import { userById } from '../../db/queries/users.ts';
import type { Services } from '../context.ts';
import { actorOf, refreshedExpiry } from '../session.ts';

const EXTEND_BEFORE_MS = 60_000;

/** A daemon that was let in just now. */
export interface JoinedDaemon extends DaemonRow {
  /** Of the token that it showed, where it was a person's: when that is deleted or expires, the daemon has to go too. */
  apiKeyId?: string;
}

/**
 * Which of these daemons would not be let in any more: their key is deleted; the user or the token is gone, the token
 * has expired, or the user is suspended or lost the right to run daemons of that scope. The pre-shared key and the
 * built-in daemons' secret last as long as the server. A connected daemon is a use of its session, which it extends.
 */
export async function withoutCredential(
  { sql, clock, config }: Services,
  daemons: Iterable<JoinedDaemon>,
): Promise<Set<DaemonRow['id']>> {
  const byKey = new Map<string, DaemonRow[]>();
  const byUser = new Map<string, DaemonRow[]>();
  const byToken = new Map<string, DaemonRow[]>();
  const add = (to: Map<string, DaemonRow[]>, id: string, row: DaemonRow) => to.set(id, [...(to.get(id) ?? []), row]);
  for (const daemon of daemons) {
    const [kind, id] = daemon.credential.split(':') as [string, string];
    if (kind === 'key') add(byKey, id, daemon);
    if (kind === 'user') add(byUser, id, daemon);
    if (daemon.apiKeyId) add(byToken, daemon.apiKeyId, daemon);
  }
  const gone = new Set<string>();
  const lost = (rows: DaemonRow[] = []) => {
    for (const { id } of rows) gone.add(id);
  };
  const keys = [...byKey.keys()];
  const tokens = [...byToken.keys()];
  if (keys.length + tokens.length > 0) {
    const now = clock.now();
    const [keptKeys, keptTokens] = await Promise.all([
      sql<{ id: string }[]>`SELECT id::text FROM provisioner_keys WHERE id = ANY(${keys}::uuid[])`,
      sql<ApiKeyRow[]>`SELECT * FROM api_keys WHERE id = ANY(${tokens}::text[]) AND expires_at > ${now}`,
    ]);
    for (const token of keptTokens) {
      if (token.expires_at.getTime() - now.getTime() > EXTEND_BEFORE_MS) continue;
      const expires = refreshedExpiry(token, now, config);
      if (expires > token.expires_at) await touchApiKey(sql, token.id, now, expires);
    }
    const there = new Set([...keptKeys, ...keptTokens].map(({ id }) => id));
    for (const [id, rows] of [...byKey, ...byToken]) if (!there.has(id)) lost(rows);
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
