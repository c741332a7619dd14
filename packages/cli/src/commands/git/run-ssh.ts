import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { expandHome } from '../../lib/expand-home.ts';

const ASK_MS = 5_000;

/**
 * The user's own keys that ssh would try for this host: a key on the command line makes ssh ignore the keys that it finds
 * itself. Empty if ssh is too old to list them.
 */
export async function ownKeys(ctx: Context, args: readonly string[]): Promise<string[]> {
  try {
    const { stdout } = await promisify(execFile)('ssh', ['-G', ...args], { env: ctx.env, timeout: ASK_MS });
    return stdout
      .split('\n')
      .flatMap((line) => /^identityfile (.+)$/.exec(line)?.[1] ?? [])
      .map((path) => expandHome(path, ctx.env))
      .filter((path) => existsSync(path));
  } catch {
    return [];
  }
}

/** Runs ssh with this program's input and output. @returns its exit code; 255 where a signal ended it. */
export async function runSsh(ctx: Context, args: readonly string[]): Promise<number> {
  const { stdin, stdout, stderr } = ctx.io;
  // ssh inherits the streams directly, if they are those of this process
  const mine = stdin === process.stdin && stdout === process.stdout;
  const child = spawn('ssh', args, { env: ctx.env, stdio: mine ? 'inherit' : 'pipe' });
  if (!mine) {
    stdin.pipe(child.stdin!);
    child.stdin!.on('error', () => {});
    child.stdout!.pipe(stdout, { end: false });
    child.stderr!.pipe(stderr, { end: false });
  }
  const stop = () => child.kill('SIGINT');
  ctx.signal.addEventListener('abort', stop, { once: true });
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (cause: NodeJS.ErrnoException) => {
        const why = cause.code === 'ENOENT' ? 'it is not installed in this workspace' : cause.message;
        reject(new AppError('unavailable', `Cannot run ssh: ${why}.`, { cause }));
      });
      child.once('close', (code) => resolve(code ?? 255));
    });
  } finally {
    ctx.signal.removeEventListener('abort', stop);
    stdin.unpipe?.();
  }
}
