import { isAbsolute } from 'node:path';
import { AppError, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { builtIn } from './built-in.ts';
import { type CatalogItems, readFolder } from './folder.ts';
import { gitAddress, withClone } from './git.ts';

/** The age at which a folder is read again, and a repository is cloned again, when someone asks. */
const FOLDER_AGE_MS = 2_000;
const GIT_AGE_MS = 300_000;
/** After a failure, the source is tried again sooner. */
const RETRY_MS = 30_000;
const CLONE_MS = 60_000;

export interface CatalogOptions {
  /** A folder or a Git address. Empty: only what this release contains. */
  source: string;
  cacheDirectory: string;
  /** The server's environment without its secrets. */
  env: NodeJS.ProcessEnv;
  clock: Clock;
  log: Logger;
}

/** The bases and modules that the template builder offers. */
export interface TemplateCatalog {
  /**
   * Those of this release, and those of the administrator's source, which replace them by id. A source that fails keeps
   * what was last read, and is in `problems`.
   */
  read(): Promise<CatalogItems>;
  /** Ends a clone that runs. */
  close(): Promise<void>;
}

const together = (own: CatalogItems, added: CatalogItems): CatalogItems => ({
  bases: new Map([...own.bases, ...added.bases]),
  modules: new Map([...own.modules, ...added.modules]),
  problems: added.problems,
});

/** Creates the catalog. Throws an AppError for a source that is neither an absolute path nor a Git address. */
export function createTemplateCatalog(options: CatalogOptions): TemplateCatalog {
  const { source, clock, log } = options;
  const address = source === '' ? undefined : gitAddress(source);
  if (source !== '' && !address && !isAbsolute(source)) {
    const why = `${JSON.stringify(source)} is neither an absolute path nor a Git address`;
    throw new AppError('invalid', `Invalid value for --template-builder-source: ${why}.`);
  }
  const closed = new AbortController();
  let last: { items: CatalogItems; at: number; ageMs: number } | undefined;
  let running: Promise<CatalogItems> | undefined;

  const load = async (): Promise<CatalogItems> => {
    if (!address) return readFolder(source);
    const { cacheDirectory, env } = options;
    return withClone(address, { cacheDirectory, env, signal: closed.signal, timeoutMs: CLONE_MS }, readFolder);
  };

  const refresh = async (): Promise<CatalogItems> => {
    const at = clock.now().getTime();
    let items: CatalogItems;
    let ageMs = address ? GIT_AGE_MS : FOLDER_AGE_MS;
    try {
      const loaded = await load();
      const from = address?.url ?? source;
      items = together(builtIn(), { ...loaded, problems: loaded.problems.map((problem) => `${from}: ${problem}`) });
    } catch (err) {
      const problem = `${address?.url ?? source}: ${errorText(err)}`;
      items = { ...(last?.items ?? builtIn()), problems: [problem] };
      ageMs = RETRY_MS;
    }
    const known = new Set(last?.items.problems);
    for (const problem of items.problems) {
      if (!known.has(problem)) log.warn('a source of the template builder has a problem', { problem });
    }
    last = { items, at, ageMs };
    return items;
  };

  return {
    async read() {
      if (source === '' || closed.signal.aborted) return last?.items ?? builtIn();
      if (last && clock.now().getTime() - last.at < last.ageMs) return last.items;
      running ??= refresh().finally(() => {
        running = undefined;
      });
      // a clone takes seconds, so only the first reader waits for it
      return last && address ? last.items : running;
    },
    async close() {
      closed.abort();
      await running;
    },
  };
}
