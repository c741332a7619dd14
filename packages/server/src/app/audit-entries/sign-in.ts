import type { Db } from '../../db/connect.ts';
import type { ApiKeyRow } from '../../db/queries/apikeys.ts';
import type { Ctx } from '../context/context.ts';
import { NIL_UUID } from '../values/ids.ts';
import { audit } from './audit.ts';

export interface SignInEntry {
  /** `register`: the sign-in created the account. */
  action?: 'login' | 'register';
  /** The account, if there is one. */
  user: { id: string; username: string } | undefined;
  /** What the person sent as their name, for entries without an account. */
  name?: string;
  /** Of the response. */
  status: number;
  /** Of the new session. Absent if the sign-in failed. */
  key?: ApiKeyRow;
  fields?: Record<string, unknown>;
}

/** Records a sign-in, also a failed one. */
export async function auditSignIn(ctx: Ctx, db: Db, entry: SignInEntry): Promise<void> {
  const { user, name, key, status, action = 'login', fields } = entry;
  await audit(ctx, db, {
    resourceType: 'api_key',
    resourceId: user?.id ?? NIL_UUID,
    target: user?.username ?? name ?? '',
    action,
    status,
    userId: user?.id,
    after: key,
    fields: { ...(key ? { api_key_id: key.id } : {}), ...fields },
  });
}
