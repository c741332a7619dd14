import { AppError } from '@ropewalk/kit';
import type { Db, Tx } from '../../db/connect.ts';
import type { Ownership } from '../../db/owned.ts';
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

/**
 * The Terraform state of a workspace. Each build has its own state. A build begins with the state of the previous build
 * or with one that a person pushed. No later build changes it, so the state of every earlier build stays retrievable.
 *
 * `offerState` and `offerCheckpoint` implement the rule: a state from a daemon replaces the stored one only if it is
 * complete, has the same lineage and is not older.
 */

export interface TerraformState extends BuildState {
  /** Whether it has managed resources that could be lost. */
  hasResources: boolean;
}

/** The version of Terraform's format since 0.12. Newer versions are accepted. */
const OLDEST_VERSION = 4;

/** Parses a complete state file. Undefined for any other bytes, for example a partial file. */
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

/** When a daemon sent a state. */
export type StateSource = 'checkpoint' | 'complete' | 'fail' | 'delivery';

/** Why the stored state stays: the sent one is empty, incomplete, of another lineage or older. */
export type StateRejection = 'empty' | 'unparseable' | 'foreign_lineage' | 'older';

const WHY: Record<StateRejection, string> = {
  empty: 'it was empty',
  unparseable: 'it was not a complete Terraform state',
  foreign_lineage: 'its lineage differs from that of the stored state',
  older: 'it was older than the stored state',
};

/** Why a state was not stored, as half a sentence for people. */
export const rejectionReason = (rejection: StateRejection): string => WHY[rejection];

/** A text for people: a state was not stored, and why. */
export function rejectionText(rejection: StateRejection): string {
  return `Did not store the state that the provisioner daemon sent: ${WHY[rejection]}. The last known state was kept.`;
}

/** Counts the states that were not stored. */
export interface StateObserver {
  stateRejected(source: StateSource, reason: StateRejection): void;
}

/**
 * Stores a state with a build if it may replace the stored one, or else returns why not. Within one lineage the serial
 * must grow. A final state may also repeat it: when nothing changed during the run, Terraform keeps the serial but
 * still rewrites the file, for example with its own version.
 */
export async function offerState(
  tx: Tx,
  build: OwnedBuild,
  bytes: Uint8Array,
  source: StateSource,
): Promise<StateRejection | undefined> {
  if (bytes.length === 0) return (await knownState(tx, build.build_id))?.hasResources ? 'empty' : undefined;
  const state = readState(bytes);
  if (!state) return 'unparseable';
  const repeats = source === 'complete' || source === 'fail';
  return (await replaceState(tx, build, state, { repeats })) ? undefined : whyNot(tx, build.build_id, state);
}

/** Enough for a reader. Terraform works on ten resources at a time. */
const MAX_IN_FLIGHT = 100;
const LONGEST_ADDRESS = 512;

/** Stores the state of a run in progress if the sender owns the job. The in-flight resources come with it, or alone. */
export async function offerCheckpoint(
  db: Db,
  own: Ownership,
  { state: bytes, inFlight: named }: { state: Uint8Array; inFlight: string[] },
): Promise<{ owned: boolean; rejected?: StateRejection }> {
  const inFlight = named.slice(0, MAX_IN_FLIGHT).map((address) => address.slice(0, LONGEST_ADDRESS));
  if (bytes.length === 0) return { owned: await setInFlight(db, own, inFlight) };
  const state = readState(bytes);
  if (state && (await storeCheckpoint(db, own, state, inFlight))) return { owned: true };
  const buildId = await buildOfOwner(db, own);
  if (!buildId) return { owned: false };
  return { owned: true, rejected: state ? await whyNot(db, buildId, state) : 'unparseable' };
}

async function whyNot(db: Db, buildId: string, state: TerraformState): Promise<StateRejection> {
  return (await lineageOfBuild(db, buildId)) === state.lineage ? 'older' : 'foreign_lineage';
}

async function knownState(db: Db, buildId: string): Promise<TerraformState | undefined> {
  return readState((await stateOfBuild(db, buildId)) ?? Buffer.alloc(0));
}

/** Terraform increments the serial of a pushed state. Beyond 2^53 - 1 the server could not read any state. */
const MAX_PUSHED_SERIAL = 2 ** 52;

/** Parses a state that a person pushes. @throws AppError `invalid` when it is not a complete state */
export function pushedState(bytes: Buffer): TerraformState {
  const state = readState(bytes);
  if (state && state.serial <= MAX_PUSHED_SERIAL) return state;
  const detail = state
    ? `has the serial ${state.serial}; the largest that can be pushed is ${MAX_PUSHED_SERIAL}`
    : 'must be a complete Terraform state file with a version of 4 or later, a serial and a lineage';
  throw new AppError('invalid', `Invalid state: it ${detail}.`, { validations: [{ field: 'state', detail }] });
}

/** The ids and tokens of the agents in a state, as the template knows them. Empty for a state that cannot be read. */
export function agentTokensIn(bytes: Buffer | null): { agentId: string; token: string }[] {
  if (!bytes || bytes.length === 0) return [];
  let state: {
    resources?: { type?: unknown; mode?: unknown; instances?: { attributes?: Record<string, unknown> }[] }[];
  };
  try {
    state = JSON.parse(bytes.toString('utf8'));
  } catch {
    return [];
  }
  return (state.resources ?? [])
    .filter(({ type, mode }) => type === 'coder_agent' && mode === 'managed')
    .flatMap(({ instances = [] }) => instances)
    .flatMap(({ attributes: { id, token } = {} }) =>
      typeof id === 'string' && typeof token === 'string' && token !== '' ? [{ agentId: id, token }] : [],
    );
}
