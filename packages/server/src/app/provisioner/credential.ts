import { errorText } from '@platform/kit';
import type { DaemonRow } from '../../db/queries/daemons.ts';
import type { Services } from '../context.ts';

/** Calls `revoked` once when the user or key that let a daemon in is gone. Gives back how to stop watching. */
export function watchCredential(services: Services, daemon: DaemonRow, revoked: () => Promise<void>): () => void {
  const { sql, events, log } = services;
  const [kind, id] = daemon.credential.split(':') as [string, string | undefined];
  if ((kind !== 'user' && kind !== 'key') || id === undefined) return () => {};
  let over = false;
  const look = async () => {
    const rows =
      kind === 'user'
        ? await sql`SELECT 1 FROM users WHERE id = ${id} AND NOT deleted AND status <> 'suspended'`
        : await sql`SELECT 1 FROM provisioner_keys WHERE id = ${id}`;
    if (rows.length > 0 || over) return;
    over = true;
    await revoked();
  };
  const check = () => void look().catch((err) => log.warn('could not check a credential', { err: errorText(err) }));
  const off = [
    events.on('revoked', ({ user_ids = [], provisioner_key_ids = [] }) => {
      if (user_ids.includes(id) || provisioner_key_ids.includes(id)) check();
    }),
    events.onResync(check),
  ];
  return () => {
    over = true;
    for (const stop of off) stop();
  };
}
