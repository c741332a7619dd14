import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { directoryHash } from '@ropewalk/server/postgres/place';

const HOME = '/var/lib/coder';

/** Removes what a server that runs as root keeps outside its config directory: its database, builds, uids and users. */
export function removeKept(configDir: string): void {
  if (process.getuid?.() !== 0) return;
  const hash = directoryHash(configDir);
  for (const file of globSync(join(HOME, 'provisioners', hash, 'uids/*'))) {
    const { name } = JSON.parse(readFileSync(file, 'utf8')) as { name?: string };
    if (name !== undefined) for (const program of ['userdel', 'groupdel']) spawnSync(program, [name]);
  }
  for (const path of [join(HOME, hash), join(HOME, 'provisioners', hash)])
    rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  for (const file of globSync(join(HOME, 'uids/*'))) if (contentOf(file) === configDir) rmSync(file, { force: true });
}

/** Empty if a server of another test has removed the file meanwhile. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (err) {
    if ((err as { code?: string }).code === 'ENOENT') return '';
    throw err;
  }
}
