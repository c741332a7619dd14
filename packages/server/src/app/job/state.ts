import { AppError } from '@platform/kit';
import type { Db, Tx } from '../../db/connect.ts';
import type { Ownership } from '../../db/queries/jobs.ts';

/**
 * The Terraform state of a workspace. Each build keeps its own: it begins with that of the build before, or with one
 * that a person pushed, and no later build changes it, so that the state of every earlier build stays retrievable.
 *
 * Nothing but this file writes `workspace_builds.provisioner_state`. `offerState` has the rule: what a daemon sends
 * replaces the stored state only if it is a complete state of the same lineage that is not older.
 */

export interface TerraformState {
  bytes: Buffer;
  serial: number;
  lineage: string;
  /** Whether it has managed resources, of which there is something to lose. */
  hasResources: boolean;
}

/** Terraform's format since 0.12; a later one is for later Terraforms to read. */
const OLDEST_VERSION = 4;

/** A complete state file. Undefined where the bytes are anything else, such as the first half of one. */
export function readState(bytes: Uint8Array): TerraformState | undefined {
  let file: { version?: unknown; serial?: unknown; lineage?: unknown; resources?: unknown } | null;
  try {
    file = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof file !== 'object' || file === null) return undefined;
  const { version, serial, lineage, resources = [] } = file;
  if (!Number.isSafeInteger(version) || (version as number) < OLDEST_VERSION) return undefined;
  if (!Number.isSafeInteger(serial) || (serial as number) < 0) return undefined;
  if (typeof lineage !== 'string' || lineage === '' || lineage.includes('\0')) return undefined;
  if (!Array.isArray(resources)) return undefined;
  const hasResources = resources.some((resource: { mode?: unknown } | null) => resource?.mode !== 'data');
  return { bytes: Buffer.from(bytes), serial: serial as number, lineage, hasResources };
}

/** On which occasion a daemon sent a state. */
export type StateSource = 'checkpoint' | 'complete' | 'fail' | 'delivery';

/** Why the stored state stays: what was sent has nothing in it, is no complete state, is of another lineage, is older. */
export type StateRefusal = 'empty' | 'unparseable' | 'foreign_lineage' | 'older';

const WHY: Record<StateRefusal, string> = {
  empty: 'it was empty',
  unparseable: 'it was not a complete Terraform state',
  foreign_lineage: 'its lineage differs from that of the stored state',
  older: 'it was older than the stored state',
};

/** Half a sentence for people: why a state was not stored. */
export const refusalReason = (refusal: StateRefusal): string => WHY[refusal];

/** For people: that a state was not stored, and why. */
export function refusalText(refusal: StateRefusal): string {
  return `The state that the provisioner daemon sent was not stored: ${WHY[refusal]}. The last known state was kept.`;
}

/** What counts the states that were not stored. */
export interface StateObserver {
  stateRefused(source: StateSource, reason: StateRefusal): void;
}

/**
 * Stores a state with a build if it may replace the one that is known there, else says why not. Within one lineage
 * the serial has to grow. A verdict may also repeat it: Terraform does not raise the serial where nothing changed since
 * the run began, and still rewrites the file, with its own version in it, for example.
 */
export async function offerState(
  tx: Tx,
  buildId: string,
  bytes: Uint8Array,
  source: StateSource,
): Promise<StateRefusal | undefined> {
  if (bytes.length === 0) return (await knownState(tx, buildId))?.hasResources ? 'empty' : undefined;
  const state = readState(bytes);
  if (!state) return 'unparseable';
  const repeats = source === 'complete' || source === 'fail';
  const stored = await tx`
    UPDATE workspace_builds SET provisioner_state = ${state.bytes}, state_serial = ${state.serial},
      state_lineage = ${state.lineage}, updated_at = now()
    WHERE id = ${buildId} AND (${isUnknown(tx)} OR (state_lineage = ${state.lineage}
      AND (state_serial < ${state.serial} OR (${repeats} AND state_serial = ${state.serial}))))
    RETURNING id`;
  return stored.length > 0 ? undefined : whyNot(tx, buildId, state);
}

/** As many as anybody reads; Terraform works on ten at a time. */
const MOST_IN_FLIGHT = 100;
const LONGEST_ADDRESS = 512;

/** Stores the state of a run that goes on, if the job is its sender's. What is in flight comes with it, or alone. */
export async function offerCheckpoint(
  db: Db,
  own: Ownership,
  { state: bytes, inFlight: named }: { state: Uint8Array; inFlight: string[] },
): Promise<{ owned: boolean; refused?: StateRefusal }> {
  const inFlight = named.slice(0, MOST_IN_FLIGHT).map((address) => address.slice(0, LONGEST_ADDRESS));
  const ofOwner = db`FROM provisioner_jobs j
    WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL`;
  if (bytes.length === 0) {
    const noted =
      await db`UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now() ${ofOwner} RETURNING b.id`;
    return { owned: noted.length > 0 };
  }
  const state = readState(bytes);
  if (state) {
    // of an equal serial only the same state is taken, with what is in flight now
    const stored = await db`
      UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now(), state_lineage = ${state.lineage},
        provisioner_state = CASE WHEN b.state_lineage = ${state.lineage} AND b.state_serial = ${state.serial}
          THEN b.provisioner_state ELSE ${state.bytes} END, state_serial = ${state.serial}
      ${ofOwner} AND (${isUnknown(db, 'b.')} OR (b.state_lineage = ${state.lineage}
        AND (b.state_serial < ${state.serial} OR (b.state_serial = ${state.serial} AND b.provisioner_state = ${state.bytes}))))
      RETURNING b.id`;
    if (stored.length > 0) return { owned: true };
  }
  const [build] = await db<{ id: string }[]>`SELECT b.id FROM workspace_builds b, provisioner_jobs j
    WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL`;
  if (!build) return { owned: false };
  return { owned: true, refused: state ? await whyNot(db, build.id, state) : 'unparseable' };
}

/** Whether nothing is known that could be lost: no state, or bytes of which no Terraform could make anything. */
const isUnknown = (db: Db, build = '') =>
  db.unsafe(`(coalesce(length(${build}provisioner_state), 0) = 0 OR ${build}state_lineage = '')`);

async function whyNot(db: Db, buildId: string, state: TerraformState): Promise<StateRefusal> {
  const [build] = await db<{ lineage: string }[]>`
    SELECT state_lineage AS lineage FROM workspace_builds WHERE id = ${buildId}`;
  return build?.lineage === state.lineage ? 'older' : 'foreign_lineage';
}

async function knownState(db: Db, buildId: string): Promise<TerraformState | undefined> {
  return readState((await stateOfBuild(db, buildId)) ?? Buffer.alloc(0));
}

export async function stateOfBuild(db: Db, buildId: string): Promise<Buffer | undefined> {
  const [row] = await db<{ provisioner_state: Buffer | null }[]>`
    SELECT provisioner_state FROM workspace_builds WHERE id = ${buildId}`;
  return row?.provisioner_state ?? undefined;
}

/**
 * Keeps a complete state that did not become the workspace's own, so that nothing it names is lost: with a warning on
 * the build and an entry in the audit log.
 */
export async function setStateAside(tx: Tx, buildId: string, state: TerraformState, reason: string): Promise<void> {
  await tx`INSERT INTO orphan_states (workspace_build_id, state, serial, lineage, reason)
    VALUES (${buildId}, ${state.bytes}, ${state.serial}, ${state.lineage}, ${reason})`;
  const warning = `A state of this build was stored as an orphan state instead of the workspace's state: ${reason}.`;
  await tx`UPDATE workspace_builds SET warning = ${warning} WHERE id = ${buildId}`;
  await tx`INSERT INTO audit_logs (organization_id, resource_type, resource_id, action, status_code, additional_fields)
    SELECT j.organization_id, 'workspace_build', b.id, 'write', 409,
      ${tx.json({ orphan_state: reason, serial: state.serial, lineage: state.lineage })}
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.id = ${buildId}`;
}

/**
 * What a new build begins with, as SQL for its three columns: the state of the build before, which is row `l`, or one
 * that a person gave, whatever was known before.
 */
export function firstState(tx: Tx, given: Buffer | undefined) {
  if (!given) return tx`l.provisioner_state, coalesce(l.state_serial, 0)::bigint, coalesce(l.state_lineage, '')::text`;
  const state = pushedState(given);
  return tx`${state.bytes}::bytea, ${state.serial}::bigint, ${state.lineage}::text`;
}

/** Terraform counts on from the serial of a pushed state; beyond 2^53 - 1 no state could be read any more. */
const MOST_PUSHED_SERIAL = 2 ** 52;

/** A state that a person pushes. @throws AppError `invalid` where it is no complete state. */
export function pushedState(bytes: Buffer): TerraformState {
  const state = readState(bytes);
  if (state && state.serial <= MOST_PUSHED_SERIAL) return state;
  const detail = state
    ? `has the serial ${state.serial}; the largest that can be pushed is ${MOST_PUSHED_SERIAL}`
    : 'must be a complete Terraform state file with a version of 4 or later, a serial and a lineage';
  throw new AppError('invalid', `Invalid state: it ${detail}.`, { validations: [{ field: 'state', detail }] });
}
