// Engines that an operator names by version, address and SHA-256. Each is downloaded once for all daemons that share a
// cache directory, into `engines/<SHA-256 of the download>/`. A folder appears complete, by a rename, after its program has
// reported the named version. Every daemon process that uses an engine holds it: it writes a file with its process id into the folder.
// An engine that a living process holds is not pruned.

import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type Clock, ensureDirectory, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { isAlive, processRef } from '@ropewalk/kit/process-ref';
import { isAtLeast } from '@ropewalk/kit/version';
import type { ProcessRef } from '../runner/protocol.ts';
import { type Download, download, shownUrl } from './download.ts';
import { lockFile } from './lock.ts';
import { unpackProgram } from './unpack-program.ts';
import { type TerraformBinary, terraformVersion } from './version.ts';

const FOLDER = 'engines';
const PROGRAM = process.platform === 'win32' ? 'program.exe' : 'program';
const HELD = 'held-by-';
/** The maximum time that pruning waits for a daemon that installs the same engine. */
const PRUNE_WAIT_MS = 2_000;

/** An engine to download. */
export interface NamedEngine {
  /** The version that the program must report, for example `1.11.4`. */
  version: string;
  url: string;
  /** Of the download, in lower-case hex. */
  sha256: string;
}

/**
 * Reads `VERSION=URL#sha256:HEX`.
 * @throws AppError `invalid` that does not contain the URL, which can have a password.
 */
export function parseNamedEngine(text: string): NamedEngine {
  const at = text.indexOf('=');
  const version = at < 0 ? '' : text.slice(0, at);
  const wrong = (why: string) =>
    new AppError(
      'invalid',
      `Invalid --terraform-download ${JSON.stringify(version)}: ${why}. Use VERSION=URL#sha256:HEX, such as ` +
        `1.11.4=https://mirror.example.com/terraform.zip#sha256:${'0'.repeat(8)}… with 64 digits.`,
    );
  if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) throw wrong('it does not begin with a version and "="');
  if (!isAtLeast(version, '1.1.0')) throw wrong('versions before 1.1.0 do not work');
  const url = URL.parse(text.slice(at + 1));
  if (!url || !/^https?:$/.test(url.protocol)) throw wrong('the part after "=" is not an http or https URL');
  if (url.username || url.password) throw wrong('the URL has a user name or password');
  const sha256 = /^#sha256:([0-9a-fA-F]{64})$/.exec(url.hash)?.[1]?.toLowerCase();
  if (!sha256) throw wrong('the URL does not end with #sha256: and 64 hexadecimal digits');
  url.hash = '';
  return { version, url: url.href, sha256 };
}

export interface NamedEngineOptions {
  cacheDir: string;
  log: Logger;
  env: NodeJS.ProcessEnv;
  signal?: AbortSignal | undefined;
  clock?: Clock | undefined;
  limits?: Pick<Download, 'mostBytes' | 'timeoutMs'> | undefined;
}

/**
 * The program of an engine, downloaded if the cache does not have it. Concurrent callers, also those of other processes,
 * download it once. Nothing runs before the SHA-256 of the download is the named one.
 * @throws AppError `unavailable` that names the engine, if it cannot be used.
 */
export async function namedEngine(named: NamedEngine, options: NamedEngineOptions): Promise<TerraformBinary> {
  const folder = join(options.cacheDir, FOLDER);
  const place = join(folder, named.sha256);
  await ensureDirectory(folder);
  // builds with other uids pass through it
  await chmod(folder, 0o711);
  const release = await lockFile(`${place}.lock`, options.clock ?? systemClock, options.signal);
  try {
    const found = (await installed(place, named, options.env)) ?? (await install(place, named, options));
    await hold(place);
    return found;
  } catch (err) {
    options.signal?.throwIfAborted();
    throw new AppError('unavailable', `Cannot use the engine ${named.version}: ${errorText(err)}`, { cause: err });
  } finally {
    await release();
  }
}

async function installed(
  place: string,
  { version }: NamedEngine,
  env: NodeJS.ProcessEnv,
): Promise<TerraformBinary | undefined> {
  const path = join(place, PROGRAM);
  const known = await terraformVersion(path, env).catch(() => undefined); // absent or damaged
  return known?.version === version ? { path, ...known } : undefined;
}

async function install(place: string, named: NamedEngine, options: NamedEngineOptions): Promise<TerraformBinary> {
  const { version, url, sha256 } = named;
  const { log, env, limits, signal } = options;
  const partial = join(place, '..', `.${crypto.randomUUID()}`);
  const program = join(partial, PROGRAM);
  log.info('downloading an engine', { version, url: shownUrl(url) });
  try {
    await mkdir(partial, { mode: 0o700 });
    await download({ url, sha256, signal, ...limits }, program);
    if (await isZip(program)) await writeFile(program, await unpackProgram(await readFile(program), shownUrl(url)));
    await chmod(program, 0o755);
    const known = await terraformVersion(program, env).catch((err) => {
      const text = errorText(err).replaceAll(program, 'the program');
      throw new AppError('unavailable', `${shownUrl(url)} has no usable terraform or tofu program: ${text}`);
    });
    if (known.version !== version)
      throw new AppError('unavailable', `The program of ${shownUrl(url)} reports version ${known.version}.`);
    await chmod(partial, 0o755);
    await rm(place, { recursive: true, force: true });
    await rename(partial, place);
    return { path: join(place, PROGRAM), ...known };
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

async function isZip(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString('latin1') === 'PK\x03\x04';
  } finally {
    await file.close();
  }
}

/** Keeps an engine from being pruned as long as this process lives. The caller has the lock. */
async function hold(place: string): Promise<void> {
  for (const name of await holders(place))
    if (!(await lives(place, name))) await rm(join(place, name), { force: true });
  await writeFile(join(place, `${HELD}${process.pid}`), JSON.stringify(processRef(process.pid)), { mode: 0o600 });
  await touch(place);
}

const holders = async (place: string): Promise<string[]> =>
  (await readdir(place).catch(() => [])).filter((name) => name.startsWith(HELD));

async function lives(place: string, name: string): Promise<boolean> {
  try {
    return isAlive(JSON.parse(await readFile(join(place, name), 'utf8')) as ProcessRef);
  } catch {
    return false; // half-written by a process that was killed, or just removed
  }
}

async function isHeld(place: string): Promise<boolean> {
  for (const name of await holders(place)) if (await lives(place, name)) return true;
  return false;
}

async function touch(place: string): Promise<void> {
  const now = new Date();
  await utimes(place, now, now);
}

/** The engines of a cache. `usedAt`: in ms since 1970, not before the last pruning that found it held. */
export async function cachedEngines(cacheDir: string): Promise<{ path: string; usedAt: number; held: boolean }[]> {
  const folder = join(cacheDir, FOLDER);
  const found: { path: string; usedAt: number; held: boolean }[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    const held = await isHeld(path);
    if (held) await touch(path);
    found.push({ path, usedAt: (await stat(path)).mtimeMs, held });
  }
  return found;
}

/** Removes an engine, unless a process has begun to use it. */
export async function removeEngine(path: string): Promise<void> {
  const release = await lockFile(`${path}.lock`, systemClock, AbortSignal.timeout(PRUNE_WAIT_MS)).catch(
    () => undefined,
  );
  if (!release) return;
  try {
    if (!(await isHeld(path))) await rm(path, { recursive: true, force: true });
  } finally {
    await release();
  }
}
