import { homedir, tmpdir } from 'node:os';

/** The person's home folder; where a uid has neither HOME nor an entry in passwd, the folder for temporary files. */
export function homeFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env['HOME']) return env['HOME'];
  try {
    return homedir();
  } catch {
    return tmpdir();
  }
}
