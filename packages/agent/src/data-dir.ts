import { lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';

/** Holds programs that sessions run by name, so that nobody else may put something there. */
export const SCRIPT_DATA = 'coder-script-data';

/** Makes a folder, unless it is there; whether it is ours and nobody else may write to it. */
function isOwn(dir: string): boolean {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch {
    // there already, or it can't be made: its look decides
  }
  const found = lstatSync(dir, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  return process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o022) === 0);
}

/**
 * Where the agent's `coder-script-data` lies when nobody has said it: in `base`, a folder for everybody such as /tmp, as
 * published. Where another person has made that folder, in one of our own beside it.
 */
export function defaultDataDir(base: string): string {
  if (isOwn(join(base, SCRIPT_DATA))) return base;
  const mine = join(base, `coder-${process.getuid?.() ?? 'user'}`);
  return isOwn(mine) && isOwn(join(mine, SCRIPT_DATA)) ? mine : mkdtempSync(join(base, 'coder-data-'));
}
