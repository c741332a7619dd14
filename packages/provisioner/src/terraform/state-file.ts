import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { openOwned } from '../isolation/tree.ts';
import { type StateHeader, stateHeader } from '../resources/model.ts';

/** A complete state file, as opposed to one that Terraform is writing, or could not write to its end. */
export interface WholeState extends StateHeader {
  bytes: Uint8Array;
}

/** Undefined where the bytes are no complete state. */
export function wholeState(bytes: Uint8Array): WholeState | undefined {
  if (bytes.length === 0) return undefined;
  try {
    return { bytes, ...stateHeader(bytes) };
  } catch {
    return undefined;
  }
}

/**
 * Reads a state file. Terraform truncates it and writes it again in place after each resource, and a full disk or a kill
 * may leave it at that: whatever is not a complete state, or changes while it is read, is `incomplete`. `user`: the uid of
 * the build that wrote it, where that is not the daemon's.
 */
export async function readStateFile(path: string, user?: number): Promise<WholeState | 'missing' | 'incomplete'> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    // a build of another uid may have put a link or a pipe here
    handle = user === undefined ? await open(path, 'r') : (await openOwned(path, user, { alsoOwn: true })).handle;
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'incomplete';
  }
  try {
    const before = await handle.stat({ bigint: true });
    const bytes = await handle.readFile();
    const after = await handle.stat({ bigint: true });
    if (before.mtimeNs !== after.mtimeNs || BigInt(bytes.length) !== after.size) return 'incomplete';
    return wholeState(bytes) ?? 'incomplete';
  } catch {
    return 'incomplete';
  } finally {
    await handle.close();
  }
}

/** Where Terraform writes its state, and where it puts one that it could not write there. */
export const STATE_FILE = 'terraform.tfstate';
const ERRORED_FILE = 'errored.tfstate';
/** The backup is of what a run began with, which the server has. */
export const STATE_FILES = [STATE_FILE, ERRORED_FILE, `${STATE_FILE}.backup`];

/**
 * The newest complete state that a run left in a directory, or that was read while it ran. A state of the lineage that
 * the run began with comes before any other. Undefined where the run left nothing newer than what it began with: the
 * server then keeps what it has.
 */
export async function newestState(
  dir: string,
  { given, read, user }: { given?: WholeState | undefined; read?: WholeState | undefined; user?: number | undefined },
): Promise<WholeState | undefined> {
  const files = await Promise.all([ERRORED_FILE, STATE_FILE].map((name) => readStateFile(join(dir, name), user)));
  const found = [...files, read].filter((state): state is WholeState => typeof state === 'object');
  const lineage = given?.lineage ?? found.find((state) => state === files[1])?.lineage;
  const ofLineage = found.filter((state) => state.lineage === lineage);
  const newest = (ofLineage.length > 0 ? ofLineage : found).reduce<WholeState | undefined>(
    (best, state) => (best && best.serial >= state.serial ? best : state),
    undefined,
  );
  return newest && given?.lineage === newest.lineage && newest.serial < given.serial ? undefined : newest;
}
