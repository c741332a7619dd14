/**
 * What the built-in daemons of a server show to the other servers of its deployment when their own one is gone. Their
 * server signs it with the key whose public half is in its database row. It is good for finishing jobs, not for new ones,
 * and ends with that row, a day after the server.
 */
import type { Db } from '../../db/connect.ts';
import { publicKeyOfReplica } from '../../db/queries/replicas.ts';
import { isSigned } from '../values/ed25519.ts';
import { isUuid } from '../values/ids.ts';

export const TICKET_HEADER = 'platform-daemon-ticket';

interface TicketOf {
  replicaId: string;
  /** The first part of the daemons' names: `<namePrefix>-<index>`. */
  namePrefix: string;
}

const textOf = ({ replicaId, namePrefix }: TicketOf) => `built-in-daemons/1 ${replicaId} ${namePrefix}`;

/** `sign` returns the signature in base64url. */
export function writeTicket(of: TicketOf, sign: (text: string) => string): string {
  return [of.replicaId, Buffer.from(of.namePrefix).toString('base64url'), sign(textOf(of))].join('.');
}

/** Whether the ticket was written for a daemon of this name by a server of this deployment. */
export async function isTicketFor(db: Db, ticket: string, name: string): Promise<boolean> {
  const [replicaId = '', prefix = '', signature = '', ...rest] = ticket.split('.');
  if (!isUuid(replicaId) || rest.length > 0) return false;
  const namePrefix = Buffer.from(prefix, 'base64url').toString();
  if (!name.startsWith(`${namePrefix}-`) || !/^\d+$/.test(name.slice(namePrefix.length + 1))) return false;
  const publicKey = await publicKeyOfReplica(db, replicaId);
  return publicKey !== undefined && isSigned(publicKey, textOf({ replicaId, namePrefix }), signature);
}
