import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const SHOWN_LENGTH = 12;

/**
 * The commit that a checkout is at, shortened. Undefined outside of a checkout. Reads git's files, because a process for
 * that would take longer than the commands that show it.
 */
export function headCommit(root: string): string | undefined {
  try {
    const dir = gitDir(root);
    const shared = contentOf(join(dir, 'commondir'));
    const common = shared === undefined ? dir : resolve(dir, shared);
    const head = contentOf(join(dir, 'HEAD')) ?? '';
    const ref = /^ref: (.+)$/.exec(head)?.[1];
    const commit = ref === undefined ? head : (contentOf(join(common, ref)) ?? packed(common, ref));
    return commit !== undefined && /^[0-9a-f]{40,64}$/.test(commit) ? commit.slice(0, SHOWN_LENGTH) : undefined;
  } catch {
    return undefined;
  }
}

/** A worktree has a file that names its folder. */
function gitDir(root: string): string {
  const path = join(root, '.git');
  const named = /^gitdir: (.+)$/.exec(contentOf(path) ?? '')?.[1];
  return named === undefined ? path : resolve(dirname(path), named);
}

function packed(common: string, ref: string): string | undefined {
  const line = (contentOf(join(common, 'packed-refs')) ?? '').split('\n').find((each) => each.endsWith(` ${ref}`));
  return line?.split(' ')[0];
}

/** Undefined for a folder, and for a file that does not exist. */
function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
