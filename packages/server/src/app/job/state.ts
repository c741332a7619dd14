import { AppError } from '@platform/kit';
import type { Db, Tx } from '../../db/connect.ts';
import {
  type BuildState,
  buildOfOwner,
  lineageOfBuild,
  type OwnedBuild,
  replaceState,
  setInFlight,
  stateOfBuild,
  storeCheckpoint,
} from '../../db/queries/build-states.ts';
import type { Ownership } from '../../db/queries/job-ownership.ts';

/**
 * The Terraform state of a workspace. Each build keeps its own: it begins with that of the build before, or with one
 * that a person pushed, and no later build changes it, so that the state of every earlier build stays retrievable.
 *
 * `offerState` and `offerCheckpoint` have the rule: what a daemon sends replaces the stored state only if it is a complete
 * state of the same lineage that is not older.
 */

export interface TerraformState extends BuildState {
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

/** Why the stored state stays: the sent one is empty, incomplete, of another lineage or older. */
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
  build: OwnedBuild,
  bytes: Uint8Array,
  source: StateSource,
): Promise<StateRefusal | undefined> {
  if (bytes.length === 0) return (await knownState(tx, build.build_id))?.hasResources ? 'empty' : undefined;
  const state = readState(bytes);
  if (!state) return 'unparseable';
  const repeats = source === 'complete' || source === 'fail';
  return (await replaceState(tx, build, state, { repeats })) ? undefined : whyNot(tx, build.build_id, state);
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
  if (bytes.length === 0) return { owned: await setInFlight(db, own, inFlight) };
  const state = readState(bytes);
  if (state && (await storeCheckpoint(db, own, state, inFlight))) return { owned: true };
  const buildId = await buildOfOwner(db, own);
  if (!buildId) return { owned: false };
  return { owned: true, refused: state ? await whyNot(db, buildId, state) : 'unparseable' };
}

async function whyNot(db: Db, buildId: string, state: TerraformState): Promise<StateRefusal> {
  return (await lineageOfBuild(db, buildId)) === state.lineage ? 'older' : 'foreign_lineage';
}

async function knownState(db: Db, buildId: string): Promise<TerraformState | undefined> {
  return readState((await stateOfBuild(db, buildId)) ?? Buffer.alloc(0));
}

/** Terraform counts on from the serial of a pushed state; beyond 2^53 - 1 no state could be read any more. */
const MOST_PUSHED_SERIAL = 2 ** 52;

/** A state that a person pushes. @throws AppError `invalid` where it is not a complete state. */
export function pushedState(bytes: Buffer): TerraformState {
  const state = readState(bytes);
  if (state && state.serial <= MOST_PUSHED_SERIAL) return state;
  const detail = state
    ? `has the serial ${state.serial}; the largest that can be pushed is ${MOST_PUSHED_SERIAL}`
    : 'must be a complete Terraform state file with a version of 4 or later, a serial and a lineage';
  throw new AppError('invalid', `Invalid state: it ${detail}.`, { validations: [{ field: 'state', detail }] });
}
