import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';

/** A server of this deployment: one process, from its start to its end. */
export interface ReplicaRow {
  id: string;
  hostname: string;
  version: string;
  /** Where the other servers reach it, without a trailing slash. Empty if it has no such address. */
  relay_address: string;
  /** Where it accepts streams of other servers with TLS, in the same form. Empty if it does so at the relay address. */
  cluster_address: string;
  /** Ed25519, SPKI in DER. */
  public_key: Buffer;
  /** The certificate for TLS between servers, as PEM. */
  certificate: string;
  started_at: Date;
  seen_at: Date;
  database_latency_us: number;
  /** Which other servers it cannot reach, and why. Empty if it reaches all. */
  problem: string;
}

/** After this time without a sign of life, in seconds, a server counts as gone. */
const GONE_SECONDS = 15;
/** How long the row of a server stays after its last sign of life, in hours. */
const KEPT_HOURS = 24;

/** Adds the row of a server, or repeats its sign of life. */
export async function upsertReplica(
  db: Db,
  _by: SystemTask,
  replica: Omit<ReplicaRow, 'started_at' | 'seen_at'>,
): Promise<void> {
  const { id, hostname, version, relay_address, cluster_address, public_key, certificate } = replica;
  const { database_latency_us, problem } = replica;
  await db`INSERT INTO replicas (id, hostname, version, relay_address, cluster_address, public_key, certificate, started_at,
      seen_at, database_latency_us, problem)
    VALUES (${id}, ${hostname}, ${version}, ${relay_address}, ${cluster_address}, ${public_key}, ${certificate}, now(),
      now(), ${database_latency_us}, ${problem})
    ON CONFLICT (id) DO UPDATE SET seen_at = now(), public_key = excluded.public_key, certificate = excluded.certificate,
      database_latency_us = excluded.database_latency_us, problem = excluded.problem`;
}

/** The servers with a recent sign of life, the one that started first first. */
export async function liveReplicas(db: Db): Promise<ReplicaRow[]> {
  return db<ReplicaRow[]>`SELECT * FROM replicas WHERE seen_at > now() - ${GONE_SECONDS} * interval '1 second'
    ORDER BY started_at, id`;
}

/** Records that a server ends. Its row stays for a day: its daemons may still finish jobs with its ticket. */
export async function endReplica(db: Db, _by: SystemTask, id: string): Promise<void> {
  await db`UPDATE replicas SET seen_at = least(seen_at, now() - ${GONE_SECONDS} * interval '1 second') WHERE id = ${id}`;
}

/** The key of a server that lives or ended within a day. */
export async function publicKeyOfReplica(db: Db, id: string): Promise<Buffer | undefined> {
  const [row] = await db<{ public_key: Buffer }[]>`
    SELECT public_key FROM replicas WHERE id = ${id} AND seen_at > now() - ${KEPT_HOURS} * interval '1 hour'`;
  return row?.public_key;
}

/** Removes the rows of servers that ended more than a day ago. */
export async function deleteGoneReplicas(db: Db, _by: SystemTask): Promise<void> {
  await db`DELETE FROM replicas WHERE seen_at < now() - ${KEPT_HOURS} * interval '1 hour'`;
}

/** How long an agent whose connection ended counts as one that moves to another server, in seconds. */
const MOVING_SECONDS = 10;

/** Where an agent's newest connection is or was. */
export interface AgentPlace {
  /** The server. Null before the first connection, and for an unknown agent. */
  replica_id: string | null;
  /** Whether it has a connection, as far as the database knows, or had one until a moment ago. */
  is_recent: boolean;
}

export async function placeOfAgent(db: Db, agentId: string): Promise<AgentPlace> {
  const [row] = await db<AgentPlace[]>`SELECT replica_id, last_connected_at IS NOT NULL AND (disconnected_at IS NULL
      OR disconnected_at < last_connected_at OR disconnected_at > now() - ${MOVING_SECONDS} * interval '1 second')
      AS is_recent
    FROM workspace_agents WHERE id = ${agentId}`;
  return row ?? { replica_id: null, is_recent: false };
}
