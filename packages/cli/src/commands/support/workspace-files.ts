import { posix } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import type { Client } from '@ropewalk/client';
import { quoted } from '@ropewalk/kit/container-command';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';

/** Of one file. The rest of a longer one is left out. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** Of all files together, as the workspace sends them. */
const MAX_BYTES = 128 * 1024 * 1024;
const TIMEOUT_MS = 120_000;

export interface WorkspaceFile {
  /** An absolute path in the workspace. */
  path: string;
  content: Buffer;
  /** Whether the file goes on. */
  truncated: boolean;
}

/** A variable, or a character that means something in a pattern, or another character. */
const PARTS = /\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|[*?[\]]|[^*?[\]$]+|\$/g;

/**
 * A pattern as a word of a POSIX shell, which replaces variables and finds files, but runs nothing.
 * @throws AppError `invalid` unless it is an absolute path, begins with `~/`, or begins with a variable
 */
export function shellPattern(pattern: string): string {
  if (!/^(\/|~\/|\$)/.test(pattern) || pattern.includes('\0')) {
    throw new AppError(
      'invalid',
      `Invalid --workspace-file ${JSON.stringify(pattern)}: use an absolute path in the workspace, or one with ~/.`,
    );
  }
  const home = pattern.startsWith('~/') ? '"$HOME"' : '';
  const rest = home === '' ? pattern : pattern.slice(1);
  const words = rest.replace(PARTS, (part, braced?: string, plain?: string) => {
    const name = braced ?? plain;
    if (name !== undefined) return `"$\{${name}}"`;
    return /^[*?[\]]$/.test(part) ? part : quoted(part);
  });
  return home + words;
}

/** @throws AppError `invalid` as `shellPattern` */
export function checkPatterns(patterns: readonly string[]): void {
  for (const pattern of patterns) shellPattern(pattern);
}

/** Prints the path and the content of each regular file, in Base64, with a NUL after each. */
const scriptOf = (patterns: readonly string[]): string =>
  `for f in ${patterns.map(shellPattern).join(' ')}; do
  case $f in /*) ;; *) continue ;; esac
  [ -f "$f" ] && [ -r "$f" ] || continue
  printf '%s\\0' "$f"
  head -c ${MAX_FILE_BYTES + 1} <"$f" | base64 | tr -d '\\n'
  printf '\\0'
done`;

/**
 * Reads files of a workspace over SSH, as the user of its agent.
 * @throws AppError `invalid` for patterns as `shellPattern` does, and if the files are too large
 */
export async function workspaceFiles(
  ctx: Context,
  client: Client,
  agentId: string,
  patterns: readonly string[],
): Promise<WorkspaceFile[]> {
  const command = `/bin/sh -c ${quoted(scriptOf(patterns))}`;
  const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const [{ openTunnel }, { runSession }] = await Promise.all([
    import('@ropewalk/client/stream'),
    import('../../ssh/session.ts'),
  ]);
  const { stream, hostKey } = await openTunnel(client, agentId, { service: 'ssh', signal });
  const chunks: Buffer[] = [];
  let size = 0;
  const stdout = new PassThrough();
  stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MAX_BYTES) stream.destroy();
    else chunks.push(chunk);
  });
  const io = { stdin: Readable.from([]), stdout, stderr: new PassThrough().resume() };
  try {
    await runSession({ ...ctx, io, signal }, { stream, hostKey, command, tty: false, env: {}, remoteForwards: [] });
  } catch (err) {
    if (size <= MAX_BYTES) throw err;
    throw new AppError('invalid', `The files are too large: more than ${MAX_BYTES / 1024 / 1024} MiB as Base64.`);
  } finally {
    stream.destroy();
  }
  const parts = Buffer.concat(chunks).toString('utf8').split('\0');
  const found = new Map<string, WorkspaceFile>();
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const path = posix.normalize(parts[at]!);
    const content = Buffer.from(parts[at + 1]!, 'base64');
    const truncated = content.length > MAX_FILE_BYTES;
    found.set(path, { path, content: content.subarray(0, MAX_FILE_BYTES), truncated });
  }
  return [...found.values()];
}
