import { homedir, tmpdir } from 'node:os';

/** The user's home directory. If a uid has neither HOME nor a passwd entry, the directory for temporary files. */
export function homeFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env['HOME']) return env['HOME'];
  try {
    return homedir();
  } catch {
    return tmpdir();
  }
}
