// Terraform's states of builds. Nothing but this file writes `workspace_builds.provisioner_state`; the rules, which state
// may replace which, are in app/job/state.ts.

import type { VerifiedDaemon } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { Owned, Ownership } from './job-ownership.ts';

/** A complete state, with the serial and lineage that decide whether it may replace another. */
export interface BuildState {
  bytes: Buffer;
  serial: number;
  lineage: string;
}

/** A build whose job is the writer's. */
export type OwnedBuild = Owned<{ build_id: string }>;

export async function stateOfBuild(db: Db, buildId: string): Promise<Buffer | undefined> {
  const [row] = await db<{ provisioner_state: Buffer | null }[]>`
    SELECT provisioner_state FROM workspace_builds WHERE id = ${buildId}`;
  return row?.provisioner_state ?? undefined;
}

export async function lineageOfBuild(db: Db, buildId: string): Promise<string | undefined> {
  const [build] = await db<{ lineage: string }[]>`
    SELECT state_lineage AS lineage FROM workspace_builds WHERE id = ${buildId}`;
  return build?.lineage;
}

/** The build of a job that its owner reports on. */
export function buildOfJob(job: Owned<{ input: { workspace_build_id?: string } }>): OwnedBuild {
  return { build_id: job.input.workspace_build_id! } as OwnedBuild;
}

/** Whether nothing is known that could be lost: no state, or bytes that no Terraform can read. */
const isUnknown = (db: Db, build = '') =>
  db.unsafe(`(coalesce(length(${build}provisioner_state), 0) = 0 OR ${build}state_lineage = '')`);

/**
 * Stores a state with a build if nothing is known there or the stored state is an older one of its lineage; with
 * `repeats` also in place of one with the same serial. False: the stored state stays.
 */
export async function replaceState(
  tx: Tx,
  build: OwnedBuild,
  state: BuildState,
  { repeats }: { repeats: boolean },
): Promise<boolean> {
  const stored = await tx`
    UPDATE workspace_builds SET provisioner_state = ${state.bytes}, state_serial = ${state.serial},
      state_lineage = ${state.lineage}, updated_at = now()
    WHERE id = ${build.build_id} AND (${isUnknown(tx)} OR (state_lineage = ${state.lineage}
      AND (state_serial < ${state.serial} OR (${repeats} AND state_serial = ${state.serial}))))
    RETURNING id`;
  return stored.length > 0;
}

const ofOwner = (db: Db, own: Ownership) => db`FROM provisioner_jobs j
  WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
    AND j.completed_at IS NULL`;

/** Stores which resources a running build is creating. False: the job is not the sender's. */
export async function setInFlight(db: Db, own: Ownership, inFlight: string[]): Promise<boolean> {
  const noted = await db`
    UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now() ${ofOwner(db, own)} RETURNING b.id`;
  return noted.length > 0;
}

/**
 * Stores the state of a running build, and which resources it is creating. The state must be newer than the stored one,
 * or the same. False: it was not stored, for this reason or because the job is not the sender's.
 */
export async function storeCheckpoint(db: Db, own: Ownership, state: BuildState, inFlight: string[]): Promise<boolean> {
  const stored = await db`
    UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now(), state_lineage = ${state.lineage},
      provisioner_state = CASE WHEN b.state_lineage = ${state.lineage} AND b.state_serial = ${state.serial}
        THEN b.provisioner_state ELSE ${state.bytes} END, state_serial = ${state.serial}
    ${ofOwner(db, own)} AND (${isUnknown(db, 'b.')} OR (b.state_lineage = ${state.lineage}
      AND (b.state_serial < ${state.serial} OR (b.state_serial = ${state.serial} AND b.provisioner_state = ${state.bytes}))))
    RETURNING b.id`;
  return stored.length > 0;
}

/** The id of the build of a running job that is the sender's. */
export async function buildOfOwner(db: Db, own: Ownership): Promise<string | undefined> {
  const [build] = await db<{ id: string }[]>`SELECT b.id FROM workspace_builds b, provisioner_jobs j
    WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL`;
  return build?.id;
}

export interface DeliveredBuild {
  build_id: string;
  state_serial: number;
  state_lineage: string;
  is_latest: boolean;
}

/**
 * Locks the build of a job that this daemon was the last to run, and its workspace, as the next build does: either the
 * next build begins with the delivered state, or the delivery finds that the next build began.
 */
export async function lockDeliveredBuild(
  tx: Tx,
  { jobId, workerId }: VerifiedDaemon<Pick<Ownership, 'jobId' | 'workerId'>>,
): Promise<Owned<DeliveredBuild> | undefined> {
  await tx`SELECT 1 FROM workspaces WHERE id = (SELECT workspace_id FROM workspace_builds WHERE job_id = ${jobId}) FOR UPDATE`;
  const [build] = await tx<Owned<DeliveredBuild>[]>`
    SELECT b.id AS build_id, b.state_serial, b.state_lineage,
      NOT EXISTS (SELECT 1 FROM workspace_builds n WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number) AS is_latest
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id AND j.worker_id = ${workerId}
    WHERE b.job_id = ${jobId} FOR UPDATE OF b`;
  return build;
}

/** Keeps a state that did not become the build's, with a warning on the build and an entry in the audit log. */
export async function insertOrphanState(tx: Tx, build: OwnedBuild, state: BuildState, reason: string): Promise<void> {
  const { build_id: id } = build;
  await tx`INSERT INTO orphan_states (workspace_build_id, state, serial, lineage, reason)
    VALUES (${id}, ${state.bytes}, ${state.serial}, ${state.lineage}, ${reason})`;
  await setBuildWarning(
    tx,
    build,
    `A state of this build was stored as an orphan state instead of the workspace's state: ${reason}.`,
  );
  await tx`INSERT INTO audit_logs (organization_id, resource_type, resource_id, action, status_code, additional_fields)
    SELECT j.organization_id, 'workspace_build', b.id, 'write', 409,
      ${tx.json({ orphan_state: reason, serial: state.serial, lineage: state.lineage })}
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.id = ${id}`;
}

export async function setBuildWarning(tx: Tx, build: OwnedBuild, warning: string): Promise<void> {
  await tx`UPDATE workspace_builds SET warning = ${warning} WHERE id = ${build.build_id}`;
}

/**
 * What a new build begins with, as SQL for its three columns: the state of the build before, which is row `l`, or one
 * that a person gave, whatever was known before.
 */
export function firstState(tx: Tx, given: BuildState | undefined) {
  if (!given) return tx`l.provisioner_state, coalesce(l.state_serial, 0)::bigint, coalesce(l.state_lineage, '')::text`;
  return tx`${given.bytes}::bytea, ${given.serial}::bigint, ${given.lineage}::text`;
}

/** Resources that an error names at most. */
const MOST_NAMED = 20;

/** For a build that was cut off, as SQL of its job: a sentence on resources that may exist without being in the state. */
export const inFlightText = (db: Db) => db`coalesce((
  SELECT ' Resources that were being created: ' || array_to_string(b.in_flight[1:${MOST_NAMED}::int], ', ')
    || CASE WHEN cardinality(b.in_flight) > ${MOST_NAMED}::int
      THEN ', and ' || cardinality(b.in_flight) - ${MOST_NAMED}::int || ' more' ELSE '' END || '.'
  FROM workspace_builds b WHERE b.job_id = provisioner_jobs.id AND cardinality(b.in_flight) > 0), '')`;
