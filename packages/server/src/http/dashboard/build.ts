/**
 * Builds the dashboard in a checkout when the first page needs it. The folder of a build has the hash of the sources as
 * its name, so a build happens once for each state of the sources. The executable contains the built files instead.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, ensureDirectory, errorText, type Logger, spawnGroup } from '@ropewalk/kit';
import { type DashboardFiles, INDEX, readFolder, readPack } from './pack.ts';

declare global {
  /** Set by the single executable, which contains the built dashboard. */
  var PLATFORM_DASHBOARD: { index: string; bytes: Buffer } | undefined;
}

/** Finds the files of the dashboard. */
export interface Dashboard {
  /**
   * The files, which are built first if need be.
   * @throws AppError `unavailable` if the build failed. A later call tries again.
   */
  files(): Promise<DashboardFiles>;
  /** Ends a running build. */
  close(): Promise<void>;
}

const ROOT = join(import.meta.dirname, '../../../../..');
/** What the built files depend on. */
const SOURCES = [
  'package-lock.json',
  'packages/dashboard/*.{html,json,ts}',
  'packages/dashboard/{src,public}/**/*',
  'packages/{client,contract}/src/**/*.ts',
  'packages/server/src/http/dashboard/pack.ts',
  'scripts/dashboard/*.ts',
];
const BUILD_MS = 120_000;
/** How often to look for the result of another process that builds the same, in ms. */
const LOOK_MS = 100;
/** A build refreshes its lock this often, in ms. A lock that is older than this several times belongs to nobody. */
const REFRESH_MS = 500;
const STALE_MS = 10 * REFRESH_MS;
/** The shortest time from a failed build to the next attempt, in ms. */
const AGAIN_MS = 5_000;
/** Builds of other sources are removed when they were not used for this time, in ms. */
const UNUSED_MS = 24 * 3_600_000;
const MAX_OUTPUT = 8_192;

/** The files of a folder that `scripts/dashboard/build.ts` wrote. */
export function dashboardFolder(dir: string): Dashboard {
  let files: DashboardFiles | undefined;
  return {
    async files() {
      files ??= readFolder(dir);
      return files;
    },
    close: async () => {},
  };
}

export interface BuildOptions {
  log: Logger;
  /** The checkout. */
  root?: string;
  /** The program and arguments that write a build to the folder that follows. */
  command?: readonly string[];
}

/** The dashboard of the executable, or the one that this checkout builds. */
export function createDashboard({ log, root = ROOT, command }: BuildOptions): Dashboard {
  const embedded = globalThis.PLATFORM_DASHBOARD;
  if (embedded) {
    const files = readPack(embedded.index, embedded.bytes);
    return { files: async () => files, close: async () => {} };
  }
  const dist = join(root, 'packages/dashboard/dist');
  const build = command ?? [process.execPath, join(root, 'scripts/dashboard/build.ts')];
  const stopped = new AbortController();
  let found: Promise<DashboardFiles> | undefined;

  async function find(): Promise<DashboardFiles> {
    const hash = hashOfSources(root);
    const dir = join(dist, hash);
    if (!existsSync(join(dir, INDEX))) {
      log.info('building the dashboard');
      const began = performance.now();
      await makeOnce(dir);
      log.info('built the dashboard', { ms: Math.round(performance.now() - began) });
    }
    const now = new Date();
    await utimes(dir, now, now).catch(() => {});
    await removeUnused(dist, hash);
    return readFolder(dir);
  }

  /** Builds, unless another process builds the same already. */
  async function makeOnce(dir: string): Promise<void> {
    await ensureDirectory(dist);
    const lock = `${dir}.lock`;
    const isBuilt = () => existsSync(join(dir, INDEX));
    while (!(await take(lock))) {
      await sleep(LOOK_MS, undefined, { signal: stopped.signal });
      if (isBuilt()) return;
    }
    const refresh = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => {}), REFRESH_MS);
    try {
      if (!isBuilt()) await make(dir);
    } finally {
      clearInterval(refresh);
      await rm(lock, { force: true });
    }
  }

  async function make(dir: string): Promise<void> {
    const fresh = `${dir}.${crypto.randomUUID()}`;
    await ensureDirectory(fresh);
    try {
      const [program, ...args] = build;
      const { PATH, HOME, TMPDIR } = process.env;
      const child = await spawnGroup(program!, [...args, fresh], {
        cwd: root,
        env: { ...(PATH ? { PATH } : {}), ...(HOME ? { HOME } : {}), ...(TMPDIR ? { TMPDIR } : {}) },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let output = '';
      for (const stream of [child.process.stdout!, child.process.stderr!]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          output = (output + text).slice(-MAX_OUTPUT);
        });
      }
      const end = () => child.signal('SIGKILL');
      const timer = setTimeout(end, BUILD_MS);
      stopped.signal.addEventListener('abort', end, { once: true });
      if (stopped.signal.aborted) end();
      const { code, signal } = await child.exited;
      clearTimeout(timer);
      stopped.signal.removeEventListener('abort', end);
      if (code !== 0) {
        const reason = output.trim() || `The build ended with ${signal ?? `status ${code}`}.`;
        throw new AppError('unavailable', 'Could not build the dashboard.', { detail: reason });
      }
      await rename(fresh, dir).catch((err) => {
        // a process that took this one for dead has built the same
        if (!existsSync(dir)) throw err;
      });
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }

  return {
    files() {
      found ??= find().catch(async (err) => {
        if (!stopped.signal.aborted) {
          const reason = err instanceof AppError ? (err.detail ?? err.message) : errorText(err);
          log.error('could not build the dashboard: fix the cause, then load a page again', { err: reason });
        }
        setTimeout(() => {
          found = undefined;
        }, AGAIN_MS).unref();
        throw new AppError('unavailable', 'Could not build the dashboard.', { cause: err });
      });
      return found;
    },
    async close() {
      stopped.abort();
      await found?.catch(() => {});
    },
  };
}

/** A hash of the paths and contents that a build depends on. */
function hashOfSources(root: string): string {
  const hash = createHash('sha256');
  const entries = globSync(SOURCES, { cwd: root, withFileTypes: true }).filter((entry) => entry.isFile());
  const files = entries
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !/\.test\.tsx?$/.test(file));
  for (const file of files.sort()) {
    const bytes = readFileSync(file);
    hash.update(`${file.slice(root.length)} ${bytes.length}\n`).update(bytes);
  }
  return hash.digest('hex').slice(0, 24);
}

/** Takes a lock that nobody holds. A process that was killed leaves a lock that is not refreshed any more. */
async function take(lock: string): Promise<boolean> {
  try {
    await writeFile(lock, '', { flag: 'wx' });
    return true;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'EEXIST') throw err;
  }
  const found = await stat(lock).catch(() => undefined);
  if (found && Date.now() - found.mtimeMs > STALE_MS) await rm(lock, { force: true });
  return false;
}

async function removeUnused(dist: string, current: string): Promise<void> {
  for (const name of await readdir(dist).catch(() => [])) {
    if (name.startsWith(current)) continue;
    const path = join(dist, name);
    const age = Date.now() - (await stat(path).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs;
    if (age > UNUSED_MS) await rm(path, { recursive: true, force: true }).catch(() => {});
  }
}
