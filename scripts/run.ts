import { spawnSync } from 'node:child_process';

/** Runs a program and returns its output. @throws Error with the last lines of its messages. */
export function run(
  command: string,
  args: string[],
  { cwd, env = {}, input }: { cwd?: string; env?: NodeJS.ProcessEnv; input?: Buffer } = {},
): Buffer {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env: { ...process.env, LC_ALL: 'C', ...env },
    input,
    maxBuffer: 1 << 30,
  });
  if (error) throw new Error(`Cannot run ${command}: ${error.message}. Install it, on Debian or Ubuntu.`);
  if (status === 0) return stdout;
  throw new Error(
    `${command} ${args.slice(0, 3).join(' ')}… failed: ${stderr.toString().trim().split('\n').slice(-5).join('\n')}`,
  );
}

/** When the last commit was made: seconds since 1970. */
export const committedAt = (root: string): number =>
  Number(run('git', ['log', '-1', '--format=%ct'], { cwd: root }).toString());

/** Such as 2026-11-26T10:00:00Z. */
export const isoSeconds = (seconds: number): string => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
