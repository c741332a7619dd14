import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { AppError } from '@platform/kit/errors';
import type { Context } from '../../framework/context.ts';

/** Enough for a large repository over a slow line; without it a silent server would hold a startup script for ever. */
const GIT_MS = 15 * 60_000;

/**
 * Runs a program to its end, with all of its output on stderr. It gets the terminal where there is one, to ask on.
 * @returns its exit code; undefined where a signal or the time-out ended it.
 * @throws AppError where it can not be started, or Ctrl-C ended it.
 */
export async function runProgram(
  ctx: Context,
  file: string,
  args: readonly string[],
  options: { cwd?: string; timeoutMs?: number } = {},
): Promise<number | undefined> {
  // directly where that can be: what a script leaves running keeps its output, and nobody waits for it
  const output = ctx.io.stderr === process.stderr ? 'inherit' : 'pipe';
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: environment(ctx),
    stdio: [ctx.interactive ? 'inherit' : 'ignore', output === 'pipe' ? 'pipe' : process.stderr, output],
    signal: ctx.signal,
    timeout: options.timeoutMs,
  });
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part: Buffer) => ctx.io.stderr.write(part));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', (cause) => reject(notRun(ctx, file, cause)));
    child.once('close', resolve);
  });
  return code ?? undefined;
}

/** Runs git. @throws AppError with `failure` where it fails; git has said why on stderr. */
export async function git(ctx: Context, args: readonly string[], failure: string): Promise<void> {
  if ((await runProgram(ctx, 'git', args, { timeoutMs: GIT_MS })) !== 0) throw new AppError('unavailable', failure);
}

/** The line that git prints, such as a setting; empty where it fails, which then means that there is none. */
export async function askGit(ctx: Context, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)('git', args, { env: environment(ctx), timeout: 30_000 });
    return stdout.trim();
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') throw notRun(ctx, 'git', err as Error);
    return '';
  }
}

/** Without a terminal git must not wait for a password that nobody can give. */
function environment(ctx: Context): NodeJS.ProcessEnv {
  return { ...ctx.env, ...(ctx.interactive ? {} : { GIT_TERMINAL_PROMPT: '0' }) };
}

function notRun(ctx: Context, file: string, cause: NodeJS.ErrnoException): AppError {
  if (ctx.signal.aborted) return new AppError('canceled', 'Canceled.', { cause });
  const why = cause.code === 'ENOENT' ? 'it, or what it is written for, is not installed' : cause.message;
  return new AppError('unavailable', `${file} can not be run: ${why}.`, { cause });
}
