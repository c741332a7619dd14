import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureDirectory } from '@ropewalk/kit';

/** The Linux kernel rejects a single argument of 128 KiB or more. */
const LONGEST_ARGUMENT = 100 * 1024;

export interface ScriptCommand {
  file: string;
  args: string[];
  cleanup(): Promise<void>;
}

/**
 * Returns how to run a script's text: with the user's shell, or with the program its first line names. Texts with such
 * a line and long texts go through a file in `dir`, since not every interpreter accepts a program as an argument.
 */
export async function scriptCommand(text: string, shell: string, dir: string): Promise<ScriptCommand> {
  const shebang = /^#!\s*(\S[^\n]*)/.exec(text);
  if (!shebang && Buffer.byteLength(text) < LONGEST_ARGUMENT) {
    return { file: shell, args: ['-c', text], cleanup: async () => {} };
  }
  await ensureDirectory(dir, { mode: 0o700 });
  const path = join(dir, `script-${randomUUID()}`);
  await writeFile(path, text, { mode: 0o700 });
  const [file = shell, ...args] = shebang ? shebang[1]!.trim().split(/\s+/) : [shell];
  return { file, args: [...args, path], cleanup: () => rm(path, { force: true }) };
}
