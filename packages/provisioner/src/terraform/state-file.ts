import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
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
 * wrote the file. Absent: the daemon's. It reads in one step, because a file that was just written is in memory, and
 * seven steps of the thread pool for each rewrite took longer than everything else that a daemon does for a build.
 */
export function readStateFile(path: string, user?: number): WholeState | 'missing' | 'incomplete' {
  let fd: number;
  try {
    // a build with another uid may have put a link or a pipe here
    fd = user === undefined ? openSync(path, 'r') : openOwned(path, user, { alsoOwn: true }).fd;
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'incomplete';
  }
  try {
    const before = fstatSync(fd, { bigint: true });
    const bytes = readFileSync(fd);
    const after = fstatSync(fd, { bigint: true });
    if (before.mtimeNs !== after.mtimeNs || BigInt(bytes.length) !== after.size) return 'incomplete';
    return wholeState(bytes) ?? 'incomplete';
  } catch {
    return 'incomplete';
  } finally {
    closeSync(fd);
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
export function newestState(
  dir: string,
  { given, read, user }: { given?: WholeState | undefined; read?: WholeState | undefined; user?: number | undefined },
): WholeState | undefined {
  const files = [ERRORED_FILE, STATE_FILE].map((name) => readStateFile(join(dir, name), user));
  const found = [...files, read].filter((state): state is WholeState => typeof state === 'object');
  const lineage = given?.lineage ?? found.find((state) => state === files[1])?.lineage;
  const ofLineage = found.filter((state) => state.lineage === lineage);
  const newest = (ofLineage.length > 0 ? ofLineage : found).reduce<WholeState | undefined>(
    (best, state) => (best && best.serial >= state.serial ? best : state),
    undefined,
  );
  return newest && given?.lineage === newest.lineage && newest.serial < given.serial ? undefined : newest;
}
