import { createHash } from 'node:crypto';
import { constants, createReadStream, existsSync, readFileSync, utimesSync } from 'node:fs';
import { copyFile, cp, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type Clock, ensureDirectory, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { replaceFile } from '@ropewalk/kit/files';
import { ADDRESSES } from '@ropewalk/terraform-provider';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import type { Launcher } from '../isolation/client.ts';
import type { BuildUser } from '../isolation/protocol.ts';
import { copyOwned, openOwned, readOwned, shareTree } from '../isolation/tree.ts';
import { Graph } from '../resources/graph.ts';
import { checkBackend } from './backend.ts';
import { begin, drained, eachLine } from './command.ts';
import { type Env, TERRAFORM_ENV } from './env.ts';
import { type FrozenSource, installedPackages, LOCK_FILE, type Restored, restore } from './frozen.ts';
import { lockFile } from './lock.ts';
import { type LogLine, PrintedErrors } from './logs.ts';
import { PackageStore } from './packages.ts';
import { askedVersions, checkVersions } from './provider-version.ts';
import { pruneCache, removeTree, removeUnlinkedDownloads, setWritable } from './prune.ts';
import { statusText } from './run.ts';
import type { TerraformBinary } from './version.ts';

const UNUSED_MS = 30 * 24 * 3600_000;
const KEPT_ENTRIES = 200;
/** A large provider over a slow connection takes minutes. */
const INIT_MS = 30 * 60_000;
/** The maximum number of bytes of a file, and of files, that the daemon reads where a build can write. */
const MAX_BYTES = 10 << 20;
const MAX_FILES = 50_000;
const IN_USE_MS = 24 * 3600_000;
/** What an init leaves in the directory. */
export const LINKED = ['.terraform', LOCK_FILE] as const;

export interface PrepareOptions {
  /** The unpacked template: terraform's working directory. */
  dir: string;
  archiveHash: string;
  terraform: TerraformBinary;
  /** The variables that terraform inherits. */
  env: Env;
  /** Whether the daemon attaches its own coder provider. False: init downloads the registry's coder provider. */
  attachProvider: boolean;
  /** Returns the output of `terraform graph` for the directory. The caller runs it, since it needs a provider. */
  graph: () => Promise<string>;
  onLog: (line: LogLine) => Promise<void> | void;
  /**
   * The addresses of providers that Terraform needs in addition to those of the template, and that an init finds in the
   * state in `dir`: an earlier version of the template used them.
   */
  stateProviders?: ReadonlySet<string>;
  /** Whether the directory lacks something without an init. Absent: it does. */
  needsInit?: () => Promise<boolean>;
  signal: AbortSignal;
  /** No program starts before this resolves. Absent: programs may start immediately. */
  mayBegin?: Promise<void>;
  /**
   * The user that terraform runs as. Absent: the user of this process. `alone`: whether no other job has that uid. If
   * others have it, they could change the result of the init, so the result serves only builds of the same uid.
   */
  as?: { user: BuildUser; launcher: Launcher; alone: boolean };
  /** Whether the directory is already in use, with its links. */
  linked?: boolean;
  /** What the import has fixed. Absent for an import, and if the server does not have it. */
  frozen?: FrozenSource | undefined;
  /** The job that fetches its modules again, whatever the import has fixed. Its result serves no other job. */
  fetchModulesFor?: string;
}

export interface Prepared {
  graph: Graph;
  /** Whether the daemon must know the cost of resources before it applies. */
  costs: boolean;
  /** Whether this call prepared the directory, mostly with `terraform init`. */
  fresh: boolean;
  /** The stored result, with the fetched modules. No build can change it. */
  entry: string;
}

interface Meta {
  costs: boolean;
  links: string[];
  /** The id of the frozen version that this result has. */
  frozen?: string | undefined;
}

/**
 * Stores the result of `terraform init` once per template version and terraform version, and links it into each
 * session. So builds need neither init nor a registry. A process has one per cache directory.
 */
export class VersionCache {
  readonly #dir: string;
  readonly #cacheDir: string;
  readonly #plugins: string;
  readonly #packages: PackageStore;
  readonly #log: Logger;
  readonly #clock: Clock;
  /** Whether builds of other uids use it. */
  readonly #shared: boolean;
  readonly #initMs: number;
  readonly #preparing = new Map<string, Promise<Prepared>>();
  readonly #graphs = new Map<string, Prepared>();
  /** The keys of results that serve one job, by its id. */
  readonly #single = new Map<string, string>();

  constructor(options: {
    cacheDir: string;
    log: Logger;
    clock?: Clock | undefined;
    shared?: boolean;
    initMs?: number;
  }) {
    this.#initMs = options.initMs ?? INIT_MS;
    this.#shared = options.shared ?? false;
    this.#dir = join(options.cacheDir, 'versions');
    this.#cacheDir = options.cacheDir;
    this.#plugins = join(options.cacheDir, 'plugins');
    this.#packages = new PackageStore(join(this.#plugins, 'by-content'));
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Prepares a session's directory for plan and apply.
   * @throws AppError `invalid` if init fails. A failed init leaves nothing in the cache.
   */
  async prepare(options: PrepareOptions): Promise<Prepared> {
    const mode = options.attachProvider ? 'attached' : 'registry';
    const keyOf = (...more: (string | number)[]) =>
      createHash('sha256')
        .update([options.archiveHash, options.terraform.version, mode, ...more].join('\n'))
        .digest('hex');
    const { as, frozen, fetchModulesFor: only } = options;
    const version = [...(frozen ? [frozen.id] : []), ...(only ? ['modules of', only] : [])];
    const plainKey = as && !as.alone ? keyOf(as.user.uid, ...version) : keyOf(...version);
    const added = [...(options.stateProviders ?? [])].sort();
    const key = added.length > 0 ? keyOf(plainKey, 'with providers', ...added) : plainKey;
    // the result of an import on this machine, then one for all users, then one for this job's user
    if (only) this.#single.set(only, key);
    const keys = new Set(only ? [key] : [keyOf(), keyOf(...version), plainKey, key]);
    for (;;) {
      for (const one of keys) {
        // the init of this key has read the state. OpenTofu gives some providers of a state another address
        const known = await this.#use(one, options, one === key ? undefined : options.stateProviders);
        if (known) return known;
      }
      const running = this.#preparing.get(key);
      if (!running) break;
      // If it fails, only its own job fails. This job then tries itself, perhaps with other credentials.
      await Promise.race([running.catch(() => {}), aborted(options.signal)]);
      options.signal.throwIfAborted();
    }
    const own = this.#make(key, options);
    this.#preparing.set(key, own);
    own.catch(() => {});
    try {
      return await own;
    } finally {
      this.#preparing.delete(key);
    }
  }

  /** Removes a result that served only this job, which has ended. */
  async forget(jobId: string): Promise<void> {
    const key = this.#single.get(jobId);
    if (key === undefined) return;
    this.#single.delete(jobId);
    this.#graphs.delete(key);
    await removeTree(join(this.#dir, key));
  }

  /** Records that a result is a frozen version, so that builds of that version use it. */
  async setFrozen({ entry }: Prepared, id: string): Promise<void> {
    const path = join(entry, 'meta.json');
    const meta = JSON.parse(await readFile(path, 'utf8')) as Meta;
    replaceFile(path, JSON.stringify({ ...meta, frozen: id } satisfies Meta));
  }

  /** Removes entries that no job used for 30 days, and the oldest beyond 200. Keeps every entry of the last day. */
  async sweep(): Promise<void> {
    const policy = { unusedMs: UNUSED_MS, mostVersions: KEPT_ENTRIES, keepMs: IN_USE_MS };
    await pruneCache(this.#cacheDir, [], policy, this.#clock.now().getTime());
  }

  /** Undefined if no entry has this key, or the entry lacks one of the `needed` providers. */
  async #use(
    key: string,
    { dir, linked, as, frozen }: PrepareOptions,
    needed?: ReadonlySet<string>,
  ): Promise<Prepared | undefined> {
    const entry = join(this.#dir, key);
    if (!existsSync(entry)) return undefined;
    let meta: Meta;
    let known = this.#graphs.get(key);
    try {
      meta = JSON.parse(readFileSync(join(entry, 'meta.json'), 'utf8')) as Meta;
      // another import of the same archive may have found other versions
      if (frozen && meta.frozen !== frozen.id) return undefined;
      if (!providersPresent(entry)) throw new Error('a provider is missing');
      if (!hasProviders(entry, needed)) return undefined;
      known ??= { graph: Graph.parse(readGraph(entry)), costs: meta.costs, fresh: false, entry };
    } catch (err) {
      const { code } = err as NodeJS.ErrnoException;
      if (code !== undefined && code !== 'ENOENT') return undefined; // too many open files, for example
      // A loss of power leaves empty files. Nobody could store the version again as long as its entry exists.
      this.#log.warn('removing a damaged entry from the cache of template versions', { entry, reason: errorText(err) });
      this.#graphs.delete(key);
      await removeTree(entry);
      return undefined;
    }
    for (const name of linked ? [] : meta.links) {
      await rm(join(dir, name), { recursive: true, force: true });
      // Terraform rewrites the lock file, but only reads providers and modules.
      if (name === LOCK_FILE) {
        await copyFile(join(entry, name), join(dir, name), constants.COPYFILE_EXCL);
        if (as) await shareTree(join(dir, name), as.user.uid);
      } else await symlink(join(entry, name), join(dir, name), 'dir');
    }
    const now = this.#clock.now();
    utimesSync(join(entry, 'meta.json'), now, now);
    this.#graphs.set(key, known);
    if (this.#graphs.size > 50) this.#graphs.delete(this.#graphs.keys().next().value!);
    return known;
  }

  async #make(key: string, options: PrepareOptions): Promise<Prepared> {
    const { dir } = options;
    await options.mayBegin;
    const mode = this.#shared ? 0o711 : 0o700;
    let restored: Restored | undefined;
    await ensureDirectory(this.#plugins, { mode });
    await ensureDirectory(this.#dir, { mode });
    // Two concurrent inits can break Terraform's plugin cache. Builds with their own uids do not use it.
    const lock = options.as ? `${key}.lock` : 'init.lock';
    const release = await lockFile(join(this.#dir, lock), this.#clock, options.signal);
    try {
      // Another process may have made the entry in the meantime.
      const known = await this.#use(key, options);
      if (known) return known;
      restored = await this.#restore(options);
      const isComplete = restored?.complete || (await options.needsInit?.()) === false;
      if (!isComplete || !hasProviders(dir, options.stateProviders))
        await (options.as ? this.#init(options) : this.#download(options));
    } finally {
      // the next steps run the template's providers, which may take any amount of time
      await release();
    }
    const partial = join(this.#dir, `.${key}.${crypto.randomUUID()}`);
    try {
      const owner = options.as?.user.uid ?? process.getuid?.();
      checkBackend(dir, owner);
      if (options.attachProvider) checkVersions(await askedVersions(dir, options.as?.user.uid));
      const dot = await options.graph();
      const graph = Graph.parse(dot);
      const roots = [dir, ...(restored?.modulesDir ? [restored.modulesDir] : [])];
      const costs = (await Promise.all(roots.map((root) => mentionsCost(root, owner)))).some(Boolean);
      await mkdir(partial, { mode: options.as ? 0o711 : 0o700 });
      const links: string[] = [];
      for (const name of LINKED) {
        const present = await stat(join(dir, name)).then(
          () => true,
          () => false,
        );
        if (!present) continue;
        links.push(name);
        if (options.as) await this.#take(name, dir, partial, options.as, restored?.modulesDir);
        else await move(join(dir, name), join(partial, name));
      }
      await writeFile(join(partial, 'graph.dot'), dot, { mode: 0o600 });
      const meta: Meta = { costs, links, frozen: options.frozen?.id };
      await writeFile(join(partial, 'meta.json'), JSON.stringify(meta), { mode: 0o600 });
      await setWritable(join(partial, '.terraform'), false, options.as ? 0o555 : 0o500);
      await rename(partial, join(this.#dir, key)).catch((err: NodeJS.ErrnoException) => {
        if (err.code !== 'ENOTEMPTY' && err.code !== 'EEXIST') throw err; // another process has stored the entry first
      });
      await this.#use(key, options);
      return { graph, costs, fresh: true, entry: join(this.#dir, key) };
    } finally {
      await removeTree(partial);
    }
  }

  /** Puts what the import has fixed into the directory. Undefined if the server has nothing. */
  async #restore(options: PrepareOptions) {
    const { dir, frozen: source, attachProvider: attached, terraform, as } = options;
    const frozen = await source?.get();
    if (!source || !frozen) return undefined;
    const restored = await restore(frozen, {
      dir,
      source,
      attached,
      engine: terraform.engine,
      store: this.#packages,
      modulesStore: join(this.#cacheDir, 'modules'),
      withModules: options.fetchModulesFor === undefined,
      log: this.#log,
    });
    if (as) for (const name of LINKED) await shareTree(join(dir, name), as.user.uid);
    return restored;
  }

  /**
   * Runs init with Terraform's plugin cache. Terraform writes a provider's files in place there, so if the daemon is
   * killed meanwhile, the next one removes what no prepared version uses. The caller has the lock.
   */
  async #download(options: PrepareOptions): Promise<void> {
    const marker = join(this.#plugins, '.init');
    if (await stat(marker).catch(() => undefined)) {
      this.#log.warn('an earlier init was killed; removing what it may have left half-downloaded');
      await removeUnlinkedDownloads(this.#cacheDir);
    }
    await writeFile(marker, '', { mode: 0o600 });
    try {
      await this.#init(options);
    } finally {
      // a canceled Terraform may have been killed, too
      if (!options.signal.aborted) await rm(marker, { force: true });
    }
  }

  async #init(options: PrepareOptions): Promise<void> {
    const env: Env = { ...options.env, ...TERRAFORM_ENV };
    // Builds would run files of a plugin cache that other builds can write. #take stores their providers instead.
    if (options.as) delete env['TF_PLUGIN_CACHE_DIR'];
    else if (process.platform !== 'win32') env['TF_PLUGIN_CACHE_DIR'] = this.#plugins;
    if (options.attachProvider) {
      // init then downloads nothing
      const nobody = { Network: 'unix', String: join(this.#dir, 'none') };
      const attached = { Protocol: 'grpc', ProtocolVersion: 5, Pid: process.pid, Test: true, Addr: nobody };
      const providers = Object.fromEntries(ADDRESSES.map((address) => [address, attached]));
      env['TF_REATTACH_PROVIDERS'] = JSON.stringify(providers);
    }
    options.signal.throwIfAborted();
    const child = await begin(options, ['init', '-no-color', '-input=false'], env);
    const stop = () => void child.stop();
    options.signal.addEventListener('abort', stop, { once: true });
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      stop();
    }, this.#initMs);
    child.exited.finally(() => clearTimeout(timer)).catch(() => {});
    const errors: string[] = [];
    const printed = new PrintedErrors();
    const pass = (level: LogLevel) => async (output: string) => {
      if (level === LogLevel.ERROR) printed.take(output);
      if (output.trim() === '') return;
      if (level === LogLevel.ERROR && errors.length < 50) errors.push(output);
      await options.onLog({ level, output, at: Date.now() });
    };
    try {
      const exit = await drained(child, [
        eachLine(child.stdout, pass(LogLevel.DEBUG)),
        eachLine(child.stderr, pass(LogLevel.ERROR)),
      ]);
      if (late) {
        const limit = `${Math.round(this.#initMs / 1000)} seconds`;
        throw new AppError(
          'invalid',
          `initialize terraform: it takes more than ${limit}. Check that the registries and module sources of the template answer.`,
          { detail: errors.join('\n') },
        );
      }
      if (exit.code === 0) return;
      this.#log.debug('init failed', { code: exit.code, signal: exit.signal });
      const [first] = printed.errors;
      throw new AppError(
        'invalid',
        `initialize terraform: ${statusText(exit, options.signal)}${first ? `: ${first}` : ''}`,
        {
          detail: errors.join('\n'),
        },
      );
    } finally {
      clearTimeout(timer);
      options.signal.removeEventListener('abort', stop);
    }
  }

  /** Copies the result of an init to files that the daemon owns. Stores each provider once, by its content. */
  async #take(
    name: string,
    dir: string,
    into: string,
    { user, launcher }: NonNullable<PrepareOptions['as']>,
    modulesDir: string | undefined,
  ) {
    const [from, to] = [join(dir, name), join(into, name)];
    if (name !== '.terraform') {
      const content = createReadStream('', { fd: openOwned(from, user.uid, { alsoOwn: true }).fd });
      await writeFile(to, content, { mode: 0o644 }).finally(() => content.destroy());
      return rm(from);
    }
    const place = async (path: string, source: string) => {
      if (path === 'modules') return modulesDir;
      const parts = path.split('/');
      if (parts[0] !== 'providers' || parts.length !== 6) return undefined;
      return this.#packages.take(source, parts.slice(4).join('/'), user.uid);
    };
    await copyOwned(from, to, { uid: user.uid, place });
    await launcher.clear(user.uid, [from]);
    await rm(from, { recursive: true, force: true });
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** @throws if the graph is not whole */
function readGraph(entry: string): string {
  const dot = readFileSync(join(entry, 'graph.dot'), 'utf8');
  if (!dot.trimEnd().endsWith('}')) throw new Error('graph.dot is incomplete');
  return dot;
}

const providersPresent = (dir: string): boolean => installedPackages(dir).every(({ path }) => existsSync(path));

function hasProviders(dir: string, needed: ReadonlySet<string> = new Set()): boolean {
  if (needed.size === 0) return true;
  return needed.isSubsetOf(new Set(installedPackages(dir).map(({ address }) => address)));
}

/**
 * Whether a file of the template or its modules gives a resource a daily cost. A build may change the files meanwhile,
 * so this reads only regular files that belong to the build or the daemon.
 */
async function mentionsCost(root: string, owner: number | undefined): Promise<boolean> {
  let files = 0;
  const search = async (dir: string, depth: number): Promise<boolean> => {
    if (depth > 12) return false;
    for (const entry of await readdir(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name);
      if (entry.isDirectory()) {
        if (entry.name === 'providers' && dir.endsWith('.terraform')) continue;
        if (await search(path, depth + 1)) return true;
      } else if (entry.isFile() && /\.tf(\.json)?$/.test(entry.name)) {
        if (++files > MAX_FILES)
          throw new AppError('too_large', `The template and its modules have more than ${MAX_FILES} files.`);
        if (readOwned(path, owner, MAX_BYTES).includes('daily_cost')) return true;
      }
    }
    return false;
  };
  return search(root, 0);
}

async function move(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'EXDEV') throw err;
    await cp(from, to, { recursive: true, verbatimSymlinks: true });
    await rm(from, { recursive: true, force: true });
  }
}
