// The browsers that people's notifications are pushed to.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';

export interface WebpushSubscriptionRow {
  id: string;
  endpoint: string;
  p256dh_key: string;
  auth_key: string;
}

/** Proof that the actor may do this with the subscriptions of this person. */
type Own<A extends 'create' | 'delete'> = Allowed<A, { type: 'webpush_subscription'; ownerId: string }>;

export async function webpushSubscriptionsOf(db: Db, userId: string): Promise<WebpushSubscriptionRow[]> {
  return db<WebpushSubscriptionRow[]>`SELECT id, endpoint, p256dh_key, auth_key FROM webpush_subscriptions
    WHERE user_id = ${userId} ORDER BY created_at`;
}

/** Adds a browser, or replaces its keys. The oldest ones of the person make room for it. */
export async function saveWebpushSubscription(
  db: Db,
  { ownerId }: Own<'create'>,
  { endpoint, p256dh_key, auth_key }: Omit<WebpushSubscriptionRow, 'id'>,
  most: number,
): Promise<void> {
  await db`INSERT INTO webpush_subscriptions (user_id, endpoint, p256dh_key, auth_key)
    VALUES (${ownerId}, ${endpoint}, ${p256dh_key}, ${auth_key})
    ON CONFLICT (user_id, endpoint) DO UPDATE SET p256dh_key = excluded.p256dh_key, auth_key = excluded.auth_key,
      created_at = now()`;
  await db`DELETE FROM webpush_subscriptions WHERE id IN (SELECT id FROM webpush_subscriptions
    WHERE user_id = ${ownerId} ORDER BY created_at DESC OFFSET ${most})`;
}

export async function deleteWebpushSubscription(
  db: Db,
  { ownerId }: Own<'delete'>,
  endpoint: string,
): Promise<boolean> {
  const { count } = await db`DELETE FROM webpush_subscriptions WHERE user_id = ${ownerId} AND endpoint = ${endpoint}`;
  return count > 0;
}

/** Deletes a subscription that the browser has ended. */
export async function deleteEndedSubscription(db: Db, _by: SystemTask, id: string): Promise<void> {
  await db`DELETE FROM webpush_subscriptions WHERE id = ${id}`;
}

/** Deletes the subscriptions of all people. Returns how many. */
export async function deleteAllSubscriptions(db: Db, _by: SystemTask): Promise<number> {
  return (await db`DELETE FROM webpush_subscriptions`).count;
}
