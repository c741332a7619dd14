import { may } from '../../authz/authorize.ts';
import type { VerifiedToken } from '../../authz/proofs.ts';
import { touchApiKey, validApiKeys } from '../../db/queries/apikeys.ts';
import type { DaemonRow } from '../../db/queries/daemons.ts';
import { existingProvisionerKeys } from '../../db/queries/provisioner-keys.ts';
import { userById } from '../../db/queries/users.ts';
import type { Services } from '../context/context.ts';
import { actorOf, refreshedExpiry, WHOLE_PERSON } from '../context/session.ts';

const EXTEND_BEFORE_MS = 60_000;

/** A daemon that has just authenticated. */
export interface JoinedDaemon extends DaemonRow {
  /**
   * The user token that the daemon authenticated with, if any. When it is deleted or expires, the daemon is
   * disconnected.
   */
  token?: VerifiedToken;
  /** Whether it only finishes the jobs that it has. Absent: it takes new ones. */
  finishes?: boolean;
}

/**
 * Finds the daemons that would be rejected now. Their key was deleted; their user or token was deleted; the token
 * expired; or the user was suspended or lost the permission to run daemons of that scope. The pre-shared key and the
 * built-in daemons' secret last as long as the server runs. A connected daemon uses its session, which extends it.
 */
export async function withoutCredential(
  { sql, clock, config }: Services,
  daemons: Iterable<JoinedDaemon>,
): Promise<Set<DaemonRow['id']>> {
  const byKey = new Map<string, DaemonRow[]>();
  const byUser = new Map<string, DaemonRow[]>();
  const byToken = new Map<string, DaemonRow[]>();
  const shown = new Map<string, VerifiedToken>();
  const add = (to: Map<string, DaemonRow[]>, id: string, row: DaemonRow) => to.set(id, [...(to.get(id) ?? []), row]);
  for (const daemon of daemons) {
    const [kind, id] = daemon.credential.split(':') as [string, string];
    if (kind === 'key') add(byKey, id, daemon);
    if (kind === 'user') add(byUser, id, daemon);
    const { token } = daemon;
    if (!token) continue;
    add(byToken, token.apiKeyId, daemon);
    shown.set(token.apiKeyId, token);
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
      existingProvisionerKeys(sql, keys),
      validApiKeys(sql, tokens, now),
    ]);
    for (const token of keptTokens) {
      if (token.expires_at.getTime() - now.getTime() > EXTEND_BEFORE_MS) continue;
      const expires = refreshedExpiry(token, now, config);
      if (expires > token.expires_at) await touchApiKey(sql, shown.get(token.id)!, now, expires);
    }
    const there = new Set([...keptKeys, ...keptTokens.map(({ id }) => id)]);
    for (const [id, rows] of [...byKey, ...byToken]) if (!there.has(id)) lost(rows);
  }
  for (const [id, rows] of byUser) {
    const user = await userById(sql, id);
    const actor = user && user.status !== 'suspended' ? actorOf(user, WHOLE_PERSON, config) : undefined;
    lost(rows.filter((row) => !actor || !may(actor, 'create', daemonObject(row, id))));
  }
  return gone;
}

/** A daemon as an object of the policy. */
export function daemonObject(daemon: Pick<DaemonRow, 'organization_id' | 'tags'>, userId: string) {
  return {
    type: 'provisioner_daemon',
    organizationId: daemon.organization_id,
    ...(daemon.tags['scope'] === 'user' ? { ownerId: userId } : {}),
  } as const;
}
