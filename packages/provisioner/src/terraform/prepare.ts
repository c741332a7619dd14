import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { AppError, type Clock, type Exit, type Logger, spawnGroup, systemClock } from '@platform/kit';
import { LogLevel } from '@platform/wire/proto/provisioner';
import type { Launcher } from '../isolation/client.ts';
import type { BuildUser } from '../isolation/protocol.ts';
import { copyOwned, keepByContent, openOwned, readOwned, shareTree } from '../isolation/tree.ts';
import { Graph } from '../resources/graph.ts';
import { checkBackend } from './backend.ts';
import { type Env, TERRAFORM_ENV } from './env.ts';
import { lockFile } from './lock.ts';
import { type LogLine, PrintedErrors } from './logs.ts';
import { askedVersions, checkVersions } from './provider-version.ts';
import { EXIT_TIMEOUT_MS } from './run.ts';
import type { TerraformBinary } from './version.ts';

const UNUSED_MS = 30 * 24 * 3600_000;
const KEPT_ENTRIES = 200;
const COMMAND_TIMEOUT_MS = 60_000;
/** A large provider over a slow connection takes minutes. */
const INIT_MS = 30 * 60_000;
/** The time to read a program's output after its end. Processes that it left may keep the pipe open. */
const DRAIN_MS = 5_000;
/** The most bytes of a file, and the most files, that the daemon reads where a build can write. */
const MOST_BYTES = 10 << 20;
const MOST_FILES = 50_000;
const IN_USE_MS = 24 * 3600_000;
const LINKED = ['.terraform', '.terraform.lock.hcl'] as const;
/** The addresses of our provider in templates. For an attached provider, init downloads nothing. */
const OWN_ADDRESSES = ['registry.terraform.io/coder/coder', 'registry.terraform.io/hashicorp/coder'];

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
  signal: AbortSignal;
  /**
   * The user that terraform runs as. Absent: the user of this process. `alone`: whether no other job has that uid. If
   * others have it, they could change the result of the init, so the result serves only builds of the same uid.
   */
  as?: { user: BuildUser; launcher: Launcher; alone: boolean };
  /** Whether the directory is already in use, with its links. */
  linked?: boolean;
}

export interface Prepared {
  graph: Graph;
  /** Whether the daemon must know the cost of resources before it applies. */
  costs: boolean;
  /** Whether this call ran `terraform init`. */
  fresh: boolean;
  /** The folder of the fetched modules. No build can change it. */
  modulesDir: string;
}

/**
 * Stores the result of `terraform init` once per template version and terraform version, and links it into each
 * session. So builds need neither init nor a registry. A process has one per cache directory.
 */
export class VersionCache {
  readonly #dir: string;
  readonly #plugins: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  /** Whether builds of other uids use it. */
  readonly #shared: boolean;
  readonly #initMs: number;
  readonly #preparing = new Map<string, Promise<Prepared>>();
  readonly #graphs = new Map<string, Prepared>();

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
    this.#plugins = join(options.cacheDir, 'plugins');
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Prepares a session's directory for plan and apply.
   * @throws AppError `invalid` if init fails. A failed init leaves nothing in the cache.
   */
  async prepare(options: PrepareOptions): Promise<Prepared> {
    const mode = options.attachProvider ? 'attached' : 'registry';
    const keyOf = (whose: string) =>
      createHash('sha256')
        .update(`${options.archiveHash}\n${options.terraform.version}\n${mode}${whose}`)
        .digest('hex');
    const forAll = keyOf('');
    const { as } = options;
    const key = as && !as.alone ? keyOf(`\n${as.user.uid}`) : forAll;
    for (;;) {
      const known = (await this.#use(forAll, options)) ?? (key === forAll ? undefined : await this.#use(key, options));
      if (known) return known;
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

  /** Removes entries that no job used for 30 days, and the oldest beyond 200. Keeps every entry of the last day. */
  async sweep(): Promise<void> {
    const entries: { path: string; used: number }[] = [];
    for (const name of await readdir(this.#dir).catch(() => [])) {
      const path = join(this.#dir, name);
      const used = await stat(join(path, 'meta.json'))
        .then(({ mtimeMs }) => mtimeMs)
        .catch(() =>
          stat(path)
            .then(({ mtimeMs }) => mtimeMs)
            .catch(() => 0),
        );
      entries.push({ path, used });
    }
    const now = this.#clock.now().getTime();
    entries.sort((a, b) => b.used - a.used);
    for (const [at, { path, used }] of entries.entries()) {
      const age = now - used;
      if (age < IN_USE_MS || (at < KEPT_ENTRIES && age < UNUSED_MS)) continue;
      await writable(path, true);
      await rm(path, { recursive: true, force: true });
    }
    await this.#sweepPlugins(now);
  }

  async #use(key: string, { dir, linked, as }: PrepareOptions): Promise<Prepared | undefined> {
    const entry = join(this.#dir, key);
    let meta: { costs: boolean; links: string[] };
    try {
      meta = JSON.parse(await readFile(join(entry, 'meta.json'), 'utf8')) as typeof meta;
      if (!(await providersPresent(join(entry, '.terraform', 'providers')))) {
        await writable(entry, true);
        await rm(entry, { recursive: true, force: true });
        return undefined;
      }
    } catch {
      return undefined;
    }
    for (const name of linked ? [] : meta.links) {
      await rm(join(dir, name), { recursive: true, force: true });
      // Terraform rewrites the lock file, but only reads providers and modules.
      if (name === '.terraform.lock.hcl') {
        await copyFile(join(entry, name), join(dir, name), constants.COPYFILE_EXCL);
        if (as) await shareTree(join(dir, name), as.user.uid);
      } else await symlink(join(entry, name), join(dir, name), 'dir');
    }
    const now = this.#clock.now();
    await utimes(join(entry, 'meta.json'), now, now);
    let known = this.#graphs.get(key);
    if (!known) {
      known = {
        graph: Graph.parse(await readFile(join(entry, 'graph.dot'), 'utf8')),
        costs: meta.costs,
        fresh: false,
        modulesDir: entry,
      };
      this.#graphs.set(key, known);
      if (this.#graphs.size > 50) this.#graphs.delete(this.#graphs.keys().next().value!);
    }
    return known;
  }

  async #make(key: string, options: PrepareOptions): Promise<Prepared> {
    const { dir } = options;
    const mode = this.#shared ? 0o711 : 0o700;
    await mkdir(this.#plugins, { recursive: true, mode });
    await mkdir(this.#dir, { recursive: true, mode });
    // Two concurrent inits can break Terraform's plugin cache. Builds with their own uids do not use it.
    const lock = options.as ? `${key}.lock` : 'init.lock';
    const release = await lockFile(join(this.#dir, lock), this.#clock, options.signal);
    try {
      // Another process may have made the entry in the meantime.
      const known = await this.#use(key, options);
      if (known) return known;
      await this.#init(options);
    } finally {
      // the next steps run the template's providers, which may take any amount of time
      await release();
    }
    const partial = join(this.#dir, `.${key}.${crypto.randomUUID()}`);
    try {
      const owner = options.as?.user.uid ?? process.getuid?.();
      await checkBackend(dir, owner);
      if (options.attachProvider) {
        const env = { ...options.env, ...TERRAFORM_ENV };
        const asked = await askedVersions((args) => outputOf(options, args, env));
        options.signal.throwIfAborted();
        checkVersions(asked);
      }
      const dot = await options.graph();
      const graph = Graph.parse(dot);
      const costs = await mentionsCost(dir, owner);
      await mkdir(partial, { mode: options.as ? 0o711 : 0o700 });
      const links: string[] = [];
      for (const name of LINKED) {
        const present = await stat(join(dir, name)).then(
          () => true,
          () => false,
        );
        if (!present) continue;
        links.push(name);
        if (options.as) await this.#take(name, dir, partial, options.as);
        else await move(join(dir, name), join(partial, name));
      }
      await writeFile(join(partial, 'graph.dot'), dot, { mode: 0o600 });
      await writeFile(join(partial, 'meta.json'), JSON.stringify({ costs, links }), { mode: 0o600 });
      await writable(join(partial, '.terraform'), false, options.as ? 0o555 : 0o500);
      await rename(partial, join(this.#dir, key)).catch((err: NodeJS.ErrnoException) => {
        if (err.code !== 'ENOTEMPTY' && err.code !== 'EEXIST') throw err; // another process has stored the entry first
      });
      await this.#use(key, options);
      return { graph, costs, fresh: true, modulesDir: join(this.#dir, key) };
    } finally {
      await writable(partial, true);
      await rm(partial, { recursive: true, force: true });
    }
  }

  async #init(options: PrepareOptions): Promise<void> {
    const env: Env = { ...options.env, ...TERRAFORM_ENV };
    // Builds would run files of a plugin cache that other builds can write. #take stores their providers instead.
    if (options.as) delete env['TF_PLUGIN_CACHE_DIR'];
    else if (process.platform !== 'win32') env['TF_PLUGIN_CACHE_DIR'] = this.#plugins;
    if (options.attachProvider) {
      const nobody = { Network: 'unix', String: join(this.#dir, 'none') };
      const attached = { Protocol: 'grpc', ProtocolVersion: 5, Pid: process.pid, Test: true, Addr: nobody };
      const providers = Object.fromEntries(OWN_ADDRESSES.map((address) => [address, attached]));
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
      const why = exit.signal ? `signal: ${exit.signal}` : `exit status ${exit.code}`;
      const [first] = printed.errors;
      throw new AppError('invalid', `initialize terraform: ${why}${first ? `: ${first}` : ''}`, {
        detail: errors.join('\n'),
      });
    } finally {
      clearTimeout(timer);
      options.signal.removeEventListener('abort', stop);
    }
  }

  /** Copies the result of an init to files that the daemon owns. Stores each provider once, by its content. */
  async #take(name: string, dir: string, into: string, { user, launcher }: NonNullable<PrepareOptions['as']>) {
    const [from, to] = [join(dir, name), join(into, name)];
    if (name !== '.terraform') {
      const { handle } = await openOwned(from, user.uid, { alsoOwn: true });
      await writeFile(to, handle.createReadStream(), { mode: 0o644 });
      return rm(from);
    }
    const place = async (path: string, source: string) => {
      const parts = path.split('/');
      if (parts[0] !== 'providers' || parts.length !== 6) return undefined;
      return keepByContent(source, join(this.#plugins, 'by-content'), parts.slice(4).join('/'), user.uid);
    };
    await copyOwned(from, to, { uid: user.uid, place });
    await launcher.clear(user.uid, from);
    await rm(from, { recursive: true });
  }

  /** Removes providers that are older than 30 days and that no entry links to. */
  async #sweepPlugins(now: number): Promise<void> {
    const used = new Set<string>();
    for (const name of await readdir(this.#dir).catch(() => []))
      for (const path of await providerDirs(join(this.#dir, name, '.terraform', 'providers')))
        await readlink(path).then(
          (target) => used.add(target),
          () => {},
        );
    for (const path of await providerDirs(this.#plugins)) {
      const { mtimeMs } = await stat(path);
      if (used.has(path) || now - mtimeMs < UNUSED_MS) continue;
      await rm(path, { recursive: true, force: true });
    }
  }
}

interface Command {
  stdout: Readable;
  stderr: Readable;
  exited: Promise<Exit>;
  /** Sends SIGINT, and after three minutes SIGKILL to the processes that still run. */
  stop(): Promise<void>;
  /** Sends SIGKILL to the rest of its process group. */
  kill(): Promise<void>;
}

/** Starts terraform in the directory, as the user of the job. */
async function begin({ dir, terraform, as }: PrepareOptions, args: string[], env: Env): Promise<Command> {
  if (!as) {
    const child = await spawnGroup(terraform.path, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const { stdout, stderr } = child.process;
    const stop = async () => void (await child.stop('SIGINT', EXIT_TIMEOUT_MS));
    const kill = async () => child.signal('SIGKILL');
    return { stdout: stdout!, stderr: stderr!, exited: child.exited, stop, kill };
  }
  const { launcher, user } = as;
  const run = await launcher.run({ uid: user.uid, file: terraform.path, args, cwd: dir, env });
  const kill = () => launcher.signal(run.process, 'SIGKILL').catch(() => {});
  const stop = async () => {
    const timer = setTimeout(kill, EXIT_TIMEOUT_MS);
    await launcher.signal(run.process, 'SIGINT').catch(() => {});
    await run.exited.catch(() => {});
    clearTimeout(timer);
  };
  return { ...run, stop, kill };
}

/** The output of a short command. Empty if the command fails. */
async function outputOf(options: PrepareOptions, args: string[], env: Env): Promise<string> {
  const command = await begin(options, args, env);
  const timer = setTimeout(() => void command.stop(), COMMAND_TIMEOUT_MS);
  const stop = () => void command.stop();
  options.signal.addEventListener('abort', stop, { once: true });
  try {
    let output = '';
    const take = (line: string) => {
      if (output.length < MOST_BYTES) output += `${line}\n`;
    };
    const { code } = await drained(command, [eachLine(command.stdout, take), eachLine(command.stderr, () => {})]);
    return code === 0 ? output : '';
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener('abort', stop);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

interface Lines {
  done: Promise<void>;
  stop(): void;
}

function eachLine(stream: Readable, take: (line: string) => unknown): Lines {
  const lines = createInterface({ input: stream });
  const done = (async () => {
    for await (const line of lines) await take(line);
  })();
  done.catch(() => {});
  const stop = () => {
    lines.close();
    stream.destroy();
  };
  return { done, stop };
}

/** Waits until a program has ended and its output is read. Does not wait for processes that it left with its pipes. */
async function drained({ exited, kill }: Command, outputs: Lines[]): Promise<Exit> {
  const failed = Promise.all(outputs.map(({ done }) => done));
  const exit = await Promise.race([exited, failed.then(() => exited)]);
  const timer = setTimeout(() => {
    void kill();
    for (const output of outputs) output.stop();
  }, DRAIN_MS);
  try {
    await failed;
  } finally {
    clearTimeout(timer);
  }
  return exit;
}

/** The directories five levels down: host, namespace, type, version, platform. */
async function providerDirs(root: string): Promise<string[]> {
  let level = [root];
  for (let depth = 0; depth < 5; depth++) {
    const next: string[] = [];
    for (const dir of level) for (const name of await readdir(dir).catch(() => [])) next.push(join(dir, name));
    level = next;
  }
  return level;
}

async function providersPresent(root: string): Promise<boolean> {
  for (const path of await providerDirs(root))
    if (
      !(await stat(path).then(
        () => true,
        () => false,
      ))
    )
      return false;
  return true;
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
        if (++files > MOST_FILES)
          throw new AppError('too_large', `The template and its modules have more than ${MOST_FILES} files.`);
        if ((await readOwned(path, owner, MOST_BYTES)).includes('daily_cost')) return true;
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

/** Sets or clears the write bits of a tree's own files and directories. Does not follow links. */
async function writable(path: string, on: boolean, closed = 0o500): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  if (!entries) return;
  if (on) await chmod(path, 0o700);
  for (const entry of entries) if (entry.isDirectory()) await writable(join(path, entry.name), on, closed);
  if (!on) await chmod(path, closed);
}
