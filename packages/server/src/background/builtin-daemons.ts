import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, chownSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { AppError, daemonUid, ensureDirectorySync, errorText, type Logger, type UidBlock } from '@ropewalk/kit';
import { crashReason } from '@ropewalk/kit/crash-report';
import { closedFolder, whyUnreachable } from '@ropewalk/kit/reach';
import type { OptionName } from '../config/option-rows.ts';
import { type Config, options } from '../config/options.ts';
import { directoryHash } from '../postgres/place.ts';
import { createCrashes } from './crashes.ts';
import { startLauncher } from './launcher.ts';
import { ownFiles } from './own-files.ts';
import { type OwnSocket, openOwnSocket } from './own-socket.ts';
import { programView } from './program-view.ts';
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
  isolation?: { uids: UidBlock; launcherPath: string; socketsDir: string } | undefined;
}

export interface BuiltinDaemonsOptions {
  config: Config;
  configDir: string;
  /** The program and arguments that run the daemons and read BuiltinDaemonsInput. */
  command: readonly string[];
  /** Of the process that starts builds under their own uids, for a server that runs as root. */
  launcherCommand?: readonly string[] | undefined;
  /** The files and folders that these programs consist of. */
  programPaths?: readonly string[] | undefined;
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
  /** Why they do not run, or keep ending. Undefined while they run well. */
  problem(): string | undefined;
  /** Where they connect. Undefined where they do not run. */
  socket: OwnSocket | undefined;
  /** Has them take no more jobs, and cancel or kill what runs; resolves when their process has ended. */
  end(how: keyof typeof SIGNALS): Promise<void>;
  /** Lets them end; what runs is left to finish, and a restarted server gets it back. */
  close(): Promise<void>;
}

/**
 * Runs the built-in daemons in a separate process, starts it again when it dies, and keeps secrets from it. A server
 * that runs as root runs them only under their own uids: without these, templates would run as root, so there are no
 * built-in daemons, and `problem` says why.
 */
export async function startBuiltinDaemons(given: BuiltinDaemonsOptions): Promise<BuiltinDaemons> {
  const { log } = given;
  if (process.getuid?.() !== 0) {
    const warning =
      "The built-in provisioner daemons run as the same user as the server: a template's code can read what that user " +
      'can. Use external provisioner daemons (coder provisioner start) to isolate templates.';
    log.warn(warning);
    return { ...(await runDaemons(given, undefined)), warnings: [warning] };
  }
  try {
    return await runDaemons(given, isolated(given));
  } catch (err) {
    if (!(err instanceof NotIsolatedError)) throw err;
    const problem = `${err.message} Or use external provisioner daemons (coder provisioner start).`;
    log.error(problem);
    return { warnings: [], problem: () => problem, socket: undefined, end: async () => {}, close: async () => {} };
  }
}

/** Builds cannot run under their own uids. The message says why, and what to do. */
class NotIsolatedError extends AppError {
  constructor(why: string) {
    super(
      'unavailable',
      `The built-in provisioner daemons do not run, because builds would run as root. ${why} Then restart the server.`,
    );
  }
}

interface Isolated {
  uids: UidBlock;
  command: readonly string[];
  launcherCommand: readonly string[];
}

/** @throws NotIsolatedError if the daemons cannot have a separate user. */
function isolated({ command, launcherCommand, programPaths = [], configDir, log }: BuiltinDaemonsOptions): Isolated {
  if (!launcherCommand) throw new NotIsolatedError('This server has no program that starts builds under other uids.');
  let uids: UidBlock;
  try {
    uids = installationUids(configDir);
  } catch (err) {
    throw new NotIsolatedError(`${errorText(err)} Run the server as a user other than root.`);
  }
  const [file, ...args] = command as [string, ...string[]];
  const read = [...new Set([file, ...args, ...launcherCommand].filter((arg) => arg.startsWith('/')))];
  const probe = (within?: readonly string[]) => whyUnreachable(daemonUid(uids), { run: file, read, within });
  const why = probe();
  if (why === undefined) return { uids, command, launcherCommand };
  const view = programView(programPaths, [ROOT_HOME]);
  if (!view || probe(view.command) !== undefined)
    throw new NotIsolatedError(`${why} Or install the program elsewhere.`);
  log.info('other users cannot pass a folder above the program, so the built-in daemons see only the program in it', {
    folder: view.closed,
  });
  return { uids, command: [...view.command, ...command], launcherCommand: [...view.command, ...launcherCommand] };
}

async function runDaemons(given: BuiltinDaemonsOptions, isolation: Isolated | undefined): Promise<BuiltinDaemons> {
  const { config, log } = given;
  const isRoot = isolation !== undefined;
  const [file, ...args] = (isolation?.command ?? given.command) as [string, ...string[]];
  const uids = isolation?.uids;
  const place = folders(given.configDir, config.cacheDirectory, uids);
  const putRight = (thorough: boolean) => {
    if (!uids) return;
    try {
      ownFiles(place.daemons, daemonUid(uids), { thorough });
    } catch (err) {
      log.warn("could not put right the owners of the daemons' files", { path: place.daemons, err: errorText(err) });
    }
  };
  putRight(false);
  if (uids) {
    const why = whyUnreachable(daemonUid(uids), { write: [place.daemons, place.home] });
    if (why !== undefined) throw new NotIsolatedError(why);
  }
  const socket = await openOwnSocket({ server: given.server, base: place.base, uid: uids && daemonUid(uids) });
  const launcher =
    isolation &&
    startLauncher({
      command: isolation.launcherCommand,
      input: {
        block: isolation.uids,
        socketPath: socket.beside('launcher.sock'),
        base: place.base,
        daemonDir: place.daemons,
      },
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
    isolation: uids && { uids, launcherPath: socket.beside('launcher.sock'), socketsDir: place.sockets },
  };
  const env = {
    ...daemonEnvironment(given.env, secretValues),
    ...(uids ? { HOME: place.home } : {}),
  };
  let closing = false;
  let child: ChildProcess | undefined;
  const crashes = createCrashes('The built-in provisioner daemons');
  const hidden = [...secretValues, given.installationSecret];

  const start = () => {
    if (closing) return;
    child = spawn(file, args, {
      env,
      cwd: place.daemons,
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
    });
    crashes.started();
    let reason: string | undefined;
    child.on('error', (err) => {
      reason = err.message;
      log.error('could not start the built-in provisioner daemons', { err });
    });
    child.stdin!.on('error', () => {});
    child.stdin!.end(JSON.stringify(input));
    child.stdout!.on('error', () => {});
    createInterface({ input: child.stdout! }).on('line', (line) => {
      reason = withoutSecrets(crashReason(line), hidden) ?? reason;
    });
    child.once('close', (code, signal) => {
      if (closing) return;
      const waitMs = crashes.ended({ code, signal, reason });
      log.error('the built-in provisioner daemons ended unexpectedly: starting them again', {
        code,
        signal,
        reason,
        wait_ms: Math.round(waitMs),
      });
      setTimeout(() => {
        putRight(true);
        start();
      }, waitMs);
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
    warnings: [],
    problem: () => crashes.problem() ?? launcher?.problem(),
    socket,
    async end(how) {
      if (child) await end(child, how);
    },
    async close() {
      closing = true;
      crashes.close();
      if (child) await stop(child, end(child, 'drain'));
      await launcher?.close();
      await socket.close();
    },
  };
}

/** Root's folder with the records to keep, the daemons' own folder in the cache directory or next to it, and their home. */
export function folders(
  configDir: string,
  cacheDirectory: string,
  uids: UidBlock | undefined,
): { base: string; daemons: string; home: string; sockets: string } {
  const isRoot = process.getuid?.() === 0;
  const name = isRoot ? join('provisioners', directoryHash(configDir)) : 'provisioners';
  const base = join(isRoot ? ROOT_HOME : configDir, name);
  const place = isRoot ? join(placeOfDaemons(cacheDirectory, uids !== undefined), name) : base;
  for (const dir of new Set([base, place])) {
    // the folders above are passed through by daemons and builds
    if (isRoot) {
      ensureDirectorySync(dirname(dir), { mode: 0o755 });
      const above = dir === base ? [ROOT_HOME, dirname(dir)] : [dirname(dir)];
      for (const each of above) chmodSync(each, statSync(each).mode | 0o711);
    }
    ensureDirectorySync(dir, { mode: 0o700 });
    if (!isRoot) continue;
    chownSync(dir, 0, 0);
    chmodSync(dir, 0o711);
  }
  const daemons = isRoot ? join(place, 'daemons') : base;
  // next to the daemons' folder, not in it: root follows no link that a daemon could put in its place
  const home = isRoot ? join(place, 'daemons-home') : join(daemons, 'home');
  // the base's path is short, as paths of sockets have to be
  const sockets = isRoot ? join(base, 'sockets') : daemons;
  for (const dir of new Set([daemons, home, sockets])) {
    ensureDirectorySync(dir, { mode: 0o700 });
    if (!uids) continue;
    chownSync(dir, daemonUid(uids), daemonUid(uids));
    chmodSync(dir, dir === home ? 0o700 : 0o711);
  }
  return { base, daemons, home, sockets };
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
    ensureDirectorySync(cacheDirectory, { mode: 0o755 });
    const { uid, mode } = statSync(cacheDirectory);
    if (uid === 0 && (mode & 0o022) === 0 && (!separate || !closedFolder(cacheDirectory))) return cacheDirectory;
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

const withoutSecrets = (text: string | undefined, secrets: readonly string[]) =>
  secrets.filter((secret) => secret !== '').reduce((out, secret) => out?.replaceAll(secret, '[redacted]'), text);
