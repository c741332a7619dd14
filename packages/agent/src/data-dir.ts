import { lstatSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Holds programs that sessions run by name, so nobody else may write to it. */
export const SCRIPT_DATA = 'coder-script-data';

/** Creates a directory if it does not exist. Returns whether we own it and nobody else can write to it. */
function isOwn(dir: string): boolean {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch {
    // It exists already or cannot be created: the check below decides.
  }
  const found = lstatSync(dir, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  return process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o022) === 0);
}

/**
 * The default parent of `coder-script-data`: `base`, a directory for everybody such as /tmp, as upstream does. If
 * another user owns the directory there, one of our own next to it.
 */
export function defaultDataDir(base: string): string {
  if (isOwn(join(base, SCRIPT_DATA))) return base;
  const mine = join(base, `coder-${process.getuid?.() ?? 'user'}`);
  return isOwn(mine) && isOwn(join(mine, SCRIPT_DATA)) ? mine : mkdtempSync(join(base, 'coder-data-'));
}

/** The file in a directory for everybody whose text names the agent that writes its logs there. */
const LOG_OWNER = '.coder-log-owner';

/**
 * The default directory for logs with a relative path: `base`, such as /tmp, as upstream does. Several workspaces on one
 * host would write the same file there, so only the first agent keeps `base` and the others get their own directories.
 * `agent` names the agent across builds, with characters that are allowed in file names.
 */
export function defaultLogDir(base: string, agent: string): string {
  const owner = join(base, LOG_OWNER);
  try {
    writeFileSync(owner, agent, { flag: 'wx', mode: 0o644 });
    return base;
  } catch {
    // An agent has claimed the directory, or nobody can write to it: opening the log reports that.
  }
  try {
    if (readFileSync(owner, 'utf8') === agent) return base;
  } catch {
    return base;
  }
  const mine = join(base, `coder-logs-${agent}`);
  return isOwn(mine) ? mine : mkdtempSync(join(base, 'coder-logs-'));
}
