import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@ropewalk/kit';
import { spawnGroup } from '@ropewalk/kit/child';
import { ensureDirectory } from '@ropewalk/kit/directory';
import { ownValue } from '@ropewalk/kit/own-value';

const MAX_ERROR_BYTES = 8 * 1024;
const GRACE_MS = 2_000;

/** An address that git clones, with the branch or tag behind `#`. */
export interface GitAddress {
  url: string;
  ref?: string;
}

/** The address in a source, or undefined for a folder. Throws an AppError for one with a password, or with a wrong ref. */
export function gitAddress(source: string): GitAddress | undefined {
  const isUrl = /^(https?|ssh|git|file):\/\//.test(source);
  if (!isUrl && !/^[\w.-]+@[\w.-]+:/.test(source)) return undefined;
  const [url = '', ref] = source.split('#');
  if (isUrl && (!URL.canParse(url) || new URL(url).password !== '')) {
    const why = 'must be a valid URL without a password. Use a credential helper of git or an SSH key';
    throw new AppError('invalid', `Invalid value for --template-builder-source: ${why}.`);
  }
  if (ref !== undefined && !/^[\w][\w./-]*$/.test(ref)) {
    throw new AppError('invalid', `Invalid branch or tag ${JSON.stringify(ref)} in --template-builder-source.`);
  }
  return ref === undefined ? { url } : { url, ref };
}

/** Variables of the server's environment that git uses to reach a host. */
const INHERITED = [
  ...['PATH', 'HOME', 'SSH_AUTH_SOCK', 'GIT_SSH_COMMAND', 'GIT_SSL_CAINFO', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'],
];

function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inherited = INHERITED.flatMap((name) => {
    const value = ownValue(env, name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    GIT_SSH_COMMAND: 'ssh -oBatchMode=yes',
    ...Object.fromEntries(inherited),
    GIT_TERMINAL_PROMPT: '0',
    GIT_LFS_SKIP_SMUDGE: '1',
    GIT_ALLOW_PROTOCOL: 'https:http:ssh:git:file',
    LC_ALL: 'C',
  };
}

export interface CloneOptions {
  /** The directory that gets a temporary directory for the clone. */
  cacheDirectory: string;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  timeoutMs: number;
}

/**
 * Clones the newest commit into a temporary directory, lets `use` read it, and deletes it. Throws an AppError with git's
 * last message if git fails, is missing or takes longer than the timeout.
 */
export async function withClone<T>(
  { url, ref }: GitAddress,
  { cacheDirectory, env, signal, timeoutMs }: CloneOptions,
  use: (directory: string) => Promise<T>,
): Promise<T> {
  await ensureDirectory(cacheDirectory);
  const directory = await mkdtemp(join(cacheDirectory, 'template-builder-'));
  const target = join(directory, 'source');
  const options = ['core.hooksPath=/dev/null', 'core.symlinks=false', 'advice.detachedHead=false'];
  const args = [
    ...options.flatMap((option) => ['-c', option]),
    ...['clone', '--quiet', '--depth=1', '--single-branch', '--no-tags'],
    ...(ref === undefined ? [] : ['--branch', ref]),
    ...['--', url, target],
  ];
  try {
    const limit = AbortSignal.timeout(timeoutMs);
    const child = await spawnGroup('git', args, {
      cwd: directory,
      env: environment(env),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    child.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-MAX_ERROR_BYTES);
    });
    const end = AbortSignal.any([limit, signal]);
    const stop = () => void child.stop('SIGTERM', GRACE_MS);
    end.addEventListener('abort', stop);
    if (end.aborted) stop();
    const { code } = await child.exited;
    end.removeEventListener('abort', stop);
    signal.throwIfAborted();
    if (limit.aborted) throw new AppError('timeout', `git clone took longer than ${timeoutMs / 1000} s.`);
    if (code !== 0) throw new AppError('unavailable', `git clone failed: ${lastMessage(errors)}`);
    return await use(target);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The first error that git names, or its last line. */
function lastMessage(errors: string): string {
  const lines = errors.split('\n').filter((line) => line.trim() !== '');
  return lines.find((line) => line.startsWith('fatal: ')) ?? lines.at(-1) ?? 'git gave no reason.';
}
