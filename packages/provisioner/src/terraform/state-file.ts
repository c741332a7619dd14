import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { openOwned } from '../isolation/tree.ts';
import { type StateHeader, stateHeader } from '../resources/model.ts';

/** A complete state file. A file that Terraform is writing, or could not finish, is not complete. */
export interface WholeState extends StateHeader {
  bytes: Uint8Array;
}

/** Parses a complete state file. Undefined if the bytes are not complete. */
export function wholeState(bytes: Uint8Array): WholeState | undefined {
  if (bytes.length === 0) return undefined;
  try {
    return { bytes, ...stateHeader(bytes) };
  } catch {
    return undefined;
  }
}

/**
 * Reads a state file. Terraform truncates and rewrites the file after each resource, and a full disk or a kill can
 * leave it incomplete. A file that changes during the read is also `incomplete`. `user` is the uid of the build that
 * wrote the file. Absent: the daemon's.
 */
export async function readStateFile(path: string, user?: number): Promise<WholeState | 'missing' | 'incomplete'> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    // a build with another uid may have put a link or a pipe here
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

/** The file for Terraform's state, and the file for a state that Terraform could not write there. */
export const STATE_FILE = 'terraform.tfstate';
const ERRORED_FILE = 'errored.tfstate';
/** All state files. The backup holds the state that a run began with, which the server has. */
export const STATE_FILES = [STATE_FILE, ERRORED_FILE, `${STATE_FILE}.backup`];

/**
 * The newest complete state that a run left in a directory, or that was read while it ran. A state with the lineage of
 * the given state has priority. Undefined if no state is newer than the given one: the server then keeps its state.
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
