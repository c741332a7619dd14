import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';

/** A value of this installation. The first server that needs it creates it. */
export async function siteValue(db: Db, _by: SystemTask, key: string, make: () => string): Promise<string> {
  const find = async () => (await db<{ value: string }[]>`SELECT value FROM site_config WHERE key = ${key}`)[0]?.value;
  const stored = await find();
  if (stored !== undefined) return stored;
  await db`INSERT INTO site_config (key, value) VALUES (${key}, ${make()}) ON CONFLICT (key) DO NOTHING`;
  return (await find())!;
}

export async function setSiteValue(
  db: Db,
  _by: Allowed<'update', { type: 'deployment_config' }>,
  key: string,
  value: string,
): Promise<void> {
  await db`INSERT INTO site_config (key, value) VALUES (${key}, ${value})
    ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
}

/** Replaces a value if it is what the caller read. Of two servers at a time, one succeeds. */
export async function replaceSiteValue(
  db: Db,
  _by: SystemTask,
  key: string,
  { from, to }: { from: string; to: string },
): Promise<boolean> {
  const { count } = await db`UPDATE site_config SET value = ${to} WHERE key = ${key} AND value = ${from}`;
  return count > 0;
}
