import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';

/** Enough for a large repository over a slow connection. Without a limit, a silent server would block a startup script. */
const GIT_MS = 15 * 60_000;

/**
 * Runs a program to its end, with all of its output on stderr. It inherits the terminal, so that it can ask questions.
 * @returns its exit code, or undefined if a signal or the timeout ended it.
 * @throws AppError if it cannot start, or if Ctrl+C ended it.
 */
export async function runProgram(
  ctx: Context,
  file: string,
  args: readonly string[],
  options: { cwd?: string; timeoutMs?: number } = {},
): Promise<number | undefined> {
  // inherited if possible: programs that a script leaves running keep their output, and the command does not wait
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

/** Runs git, which reports errors on stderr. @throws AppError with the text `failure`. */
export async function git(ctx: Context, args: readonly string[], failure: string): Promise<void> {
  if ((await runProgram(ctx, 'git', args, { timeoutMs: GIT_MS })) !== 0) throw new AppError('unavailable', failure);
}

/** The line that git prints, such as a setting. Empty if git fails, which means that the setting is missing. */
export async function askGit(ctx: Context, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)('git', args, { env: environment(ctx), timeout: 30_000 });
    return stdout.trim();
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') throw notRun(ctx, 'git', err as Error);
    return '';
  }
}

/** Without a terminal, git must not ask for a password. */
function environment(ctx: Context): NodeJS.ProcessEnv {
  return { ...ctx.env, ...(ctx.interactive ? {} : { GIT_TERMINAL_PROMPT: '0' }) };
}

function notRun(ctx: Context, file: string, cause: NodeJS.ErrnoException): AppError {
  if (ctx.signal.aborted) return new AppError('canceled', 'Canceled.', { cause });
  const why = cause.code === 'ENOENT' ? 'the program or its interpreter is not installed' : cause.message;
  return new AppError('unavailable', `Cannot run ${file}: ${why}.`, { cause });
}
