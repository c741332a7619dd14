import { existsSync } from 'node:fs';
import { readlink, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureDirectory, errorText } from '@ropewalk/kit';
import { scriptBinDir } from './environment.ts';
import type { AgentOptions } from './options.ts';

/** Links the coder command where sessions and scripts find it by name. Ignores failures: they work without it. */
export async function linkExecutable(options: AgentOptions, fallback: string): Promise<void> {
  if (!options.executable || process.platform === 'win32') return;
  const dir = scriptBinDir(options, fallback);
  const link = join(dir, 'coder');
  try {
    await ensureDirectory(dir, { mode: 0o700 });
    const now = await readlink(link).catch(() => '');
    if (now === options.executable) return;
    // A file that the user put there stays.
    if (now === '' && existsSync(link)) return;
    await rm(link, { force: true });
    await symlink(options.executable, link);
  } catch (err) {
    options.log.debug('could not link the coder command', { err: errorText(err) });
  }
}
