import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@ropewalk/kit';
import { type Pruned, type PrunePolicy, pruneCache } from '../terraform/prune.ts';

/** Prunes the cache directory of `coder provisioner start` or of a server's built-in daemons. */
export async function pruneDaemonCache(dir: string, policy: PrunePolicy): Promise<Pruned> {
  const names = await readdir(dir).catch((): string[] => []);
  if (!names.includes('tf'))
    throw new AppError(
      'not_found',
      `${dir} is not the cache directory of a provisioner daemon. Set --cache-dir to the cache directory of the daemon.`,
    );
  const sessions = names.filter((name) => name.startsWith('provisioner-')).map((name) => join(dir, name, 'work'));
  return pruneCache(join(dir, 'tf'), sessions, policy, Date.now());
}
