import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { backoff, daemonUid, type Logger, type UidBlock } from '@platform/kit';
import { ALLOCATOR } from '@platform/kit/allocator';
import { type Config, type OptionName, options } from '../config/options.ts';
import { reachable } from '../postgres/binaries.ts';
import { directoryHash } from '../postgres/place.ts';
import { startLauncher } from './launcher.ts';
import { type OwnSocket, openOwnSocket } from './own-socket.ts';
import { installationUids } from './uids.ts';

/** Where servers that run as root keep what is not theirs alone. */
const ROOT_HOME = '/var/lib/coder';
const STOP_MS = 5_000;
/** What the daemons' process does with each signal. */
const SIGNALS = { drain: 'SIGTERM', cancel: 'SIGINT', kill: 'SIGQUIT' } as const;

/** Sent to the daemons' process on its standard input, so that secrets show in neither its arguments nor its environment. */
export interface BuiltinDaemonsInput {
  serverUrl: string;
  /** The server's own socket, the only place where the secret works. */
  socketPath: string;
  count: number;
  namePrefix: string;
  cacheDir: string;
  terraformBinaries: string[];
  /** As `VERSION=URL#sha256:HEX`. */
  terraformDownloads: string[];
  terraformProvider: string;
  terraformBaseUrl: string;
  installationSecret: string;
  version: string;
  verbose: boolean;
  /** Values that no child may inherit under any name. */
  secretValues: string[];
  /** Absent: daemons and builds share the uid of this process. */
  isolation?: { uids: UidBlock; launcherPath: string } | undefined;
}

export interface BuiltinDaemonsOptions {
  config: Config;
  configDir: string;
  /** The program and arguments that run the daemons and read BuiltinDaemonsInput. */
  command: readonly string[];
  /** Of the process that starts builds under uids of their own, for a server that runs as root. */
  launcherCommand?: readonly string[] | undefined;
  serverUrl: string;
  /** Serves what comes in over the daemons' own socket. */
  server: Server;
  installationSecret: string;
  version: string;
  log: Logger;
  env: NodeJS.ProcessEnv;
}

export interface BuiltinDaemons {
  /** What an operator should know of how they run; empty where nothing. */
  warnings: string[];
  /** Where they connect. */
  socket: OwnSocket;
  /** Has them take no more jobs, and cancel or kill what runs; resolves when their process has ended. */
  end(how: keyof typeof SIGNALS): Promise<void>;
  /** Lets them end; what runs is left to finish, and a restarted server gets it back. */
  close(): Promise<void>;
}

/** Runs the built-in daemons in a process of their own, starts it again when it dies, and keeps secrets from it. */
export async function startBuiltinDaemons(given: BuiltinDaemonsOptions): Promise<BuiltinDaemons> {
  const { config, command, log } = given;
  const warnings: string[] = [];
  const isRoot = process.getuid?.() === 0;
  const [file, ...args] = command as [string, ...string[]];
  const { launcherCommand } = given;
  // as root they get uids of their own, if those can reach the program
  const separate =
    isRoot &&
    launcherCommand !== undefined &&
    [file, ...args.filter((arg) => arg.startsWith('/'))].every((path) => reachable(dirname(path)));
  if (!separate) {
    warnings.push(
      `The built-in provisioner daemons run as the same user as the server: a template's code can read what that user can. ` +
        (isRoot ? 'Install the program where every user can reach it, or use' : 'Use') +
        ' external provisioner daemons (coder provisioner start) to isolate templates.',
    );
    for (const text of warnings) log.warn(text);
  }
  const uids = separate ? installationUids(given.configDir) : undefined;
  const place = folders(given.configDir, config.cacheDirectory, uids);
  const socket = await openOwnSocket({ server: given.server, base: place.base, uid: uids && daemonUid(uids) });
  const launcher =
    uids &&
    startLauncher({
      command: launcherCommand!,
      input: { block: uids, socketPath: socket.beside('launcher.sock'), base: place.base, daemonDir: place.daemons },
      log,
    });
  const secretValues = secretsOf(config);
  const input: BuiltinDaemonsInput = {
    serverUrl: given.serverUrl,
    socketPath: socket.path,
    count: config.provisionerDaemons,
    namePrefix: hostname().split('.')[0]!.toLowerCase().slice(0, 63),
    cacheDir: isRoot ? place.daemons : config.cacheDirectory,
    terraformBinaries: config.terraformBinary,
    terraformDownloads: config.terraformDownload,
    terraformProvider: config.terraformProvider,
    terraformBaseUrl: config.terraformDownloadUrl,
    installationSecret: given.installationSecret,
    version: given.version,
    verbose: config.verbose,
    secretValues,
    isolation: uids && { uids, launcherPath: socket.beside('launcher.sock') },
  };
  const env = {
    ...daemonEnvironment(given.env, secretValues),
    ...ALLOCATOR,
    ...(separate ? { HOME: place.home } : {}),
  };
  let closing = false;
  let child: ChildProcess | undefined;
  const waits = backoff({ baseMs: 50, capMs: 5_000 });

  const start = () => {
    if (closing) return;
    const started = performance.now();
    child = spawn(file, args, {
      env,
      cwd: place.daemons,
      stdio: ['pipe', 'ignore', 'inherit'],
      detached: true,
    });
    child.on('error', (err) => log.error('could not start the built-in provisioner daemons', { err }));
    child.stdin!.on('error', () => {});
    child.stdin!.end(JSON.stringify(input));
    child.once('close', (code, signal) => {
      if (closing) return;
      if (performance.now() - started > 10_000) waits.reset();
      log.error('the built-in provisioner daemons ended unexpectedly: starting them again', { code, signal });
      setTimeout(start, waits.next());
    });
  };
  // the server is ready without waiting for that; a launcher that dies is started again, and jobs say so meanwhile
  if (launcher) void launcher.ready.finally(start).catch(() => {});
  else start();
  /** Signals the process, if it runs, and resolves when it has ended. */
  const end = (running: ChildProcess, how: keyof typeof SIGNALS): Promise<void> => {
    closing = true;
    if (running.exitCode !== null || running.signalCode !== null) return Promise.resolve();
    const ended = new Promise<void>((resolve) => running.once('exit', () => resolve()));
    running.kill(SIGNALS[how]);
    return ended;
  };

  return {
    warnings,
    socket,
    async end(how) {
      if (child) await end(child, how);
    },
    async close() {
      closing = true;
      if (child) await stop(child, end(child, 'drain'));
      launcher?.close();
      await socket.close();
    },
  };
}

/** Root's folder with the records to keep, the daemons' own folder in the cache directory or beside it, and their home. */
export function folders(
  configDir: string,
  cacheDirectory: string,
  uids: UidBlock | undefined,
): { base: string; daemons: string; home: string } {
  const isRoot = process.getuid?.() === 0;
  const name = isRoot ? join('provisioners', directoryHash(configDir)) : 'provisioners';
  const base = join(isRoot ? ROOT_HOME : configDir, name);
  const place = isRoot ? join(placeOfDaemons(cacheDirectory, uids !== undefined), name) : base;
  for (const dir of new Set([base, place])) {
    // the folders above are passed through by daemons and builds
    if (isRoot) {
      mkdirSync(dirname(dir), { recursive: true, mode: 0o755 });
      const above = dir === base ? [ROOT_HOME, dirname(dir)] : [dirname(dir)];
      for (const each of above) chmodSync(each, statSync(each).mode | 0o711);
    }
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (!isRoot) continue;
    chownSync(dir, 0, 0);
    chmodSync(dir, 0o711);
  }
  const daemons = isRoot ? join(place, 'daemons') : base;
  // beside the daemons' folder, not in it: root follows no link that a daemon could put in its place
  const home = isRoot ? join(place, 'daemons-home') : join(daemons, 'home');
  for (const dir of [daemons, home]) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (!uids) continue;
    chownSync(dir, daemonUid(uids), daemonUid(uids));
    chmodSync(dir, dir === daemons ? 0o711 : 0o700);
  }
  return { base, daemons, home };
}

/** Waits a moment for the process to end; one that still has a run goes on by itself. */
async function stop(running: ChildProcess, ended: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, STOP_MS);
  });
  await Promise.race([ended, late]);
  clearTimeout(timer);
  running.unref();
}

/**
 * Where daemons of a server that runs as root keep their folders: in the cache directory, if their user reaches it (not
 * in the home of root, say) and nobody else can put links there.
 */
function placeOfDaemons(cacheDirectory: string, separate: boolean): string {
  try {
    mkdirSync(cacheDirectory, { recursive: true, mode: 0o755 });
    const { uid, mode } = statSync(cacheDirectory);
    if (uid === 0 && (mode & 0o022) === 0 && (!separate || reachable(cacheDirectory))) return cacheDirectory;
  } catch {
    // a read-only disk, say: the place of always may do
  }
  return ROOT_HOME;
}

function secretsOf(config: Config): string[] {
  const names = (Object.keys(options) as OptionName[]).filter((name) => 'secret' in options[name]);
  return [
    ...names.flatMap((name) => config[name]),
    ...config.externalAuth.map((provider) => provider.client_secret),
  ].filter((value): value is string => typeof value === 'string' && value !== '');
}

/**
 * What templates may see of the server's environment: not the platform's own, the database's, the headers for a collector
 * of traces, nor any secret's value.
 */
export function daemonEnvironment(env: NodeJS.ProcessEnv, secretValues: readonly string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([name, value]) =>
        !name.startsWith('CODER_') &&
        !name.startsWith('PG') &&
        !/^OTEL_.*_HEADERS$/.test(name) &&
        value !== undefined &&
        !secretValues.some((secret) => value.includes(secret)),
    ),
  );
}
