import { chmodSync, chownSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import { dirname, join } from 'node:path';
import { AppError, daemonUid, ensureDirectorySync, errorText, type Logger, type UidBlock } from '@ropewalk/kit';
import { closedFolder, whyUnreachable } from '@ropewalk/kit/reach';
import type { OptionName } from '../config/options/rows.ts';
import { type Config, options } from '../config/options.ts';
import { directoryHash } from '../postgres/place.ts';
import {
  type BuiltinDaemonsInput,
  type BuiltinDaemonsUpdate,
  type DaemonsEnd,
  DaemonsProcess,
} from './daemons-process.ts';
import { startLauncher } from './launcher.ts';
import { ownFiles } from './own-files.ts';
import { LAUNCHER_SOCKET, type OwnSocket, openOwnSocket } from './own-socket.ts';
import { programView } from './program-view.ts';
import { installationUids } from './uids.ts';

/** Where servers that run as root keep what is not theirs alone. */
const ROOT_HOME = '/var/lib/coder';

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
  /** The first part of their names, which no other process on this database uses. */
  namePrefix: string;
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
  /** Names the servers with which they finish their jobs when this one is gone. */
  announce(update: BuiltinDaemonsUpdate): void;
  /** Has them take no more jobs, and cancel or kill what runs; resolves when their process has ended. */
  end(how: DaemonsEnd): Promise<void>;
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
    return {
      warnings: [],
      problem: () => problem,
      socket: undefined,
      announce: () => {},
      end: async () => {},
      close: async () => {},
    };
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
  if (!launcherCommand)
    throw new NotIsolatedError(
      'This program cannot start builds under other uids. Run the server as a user other than root.',
    );
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
  const uids = isolation?.uids;
  const place = folders(given.configDir, given.config.cacheDirectory, uids);
  if (uids) claimFolders(place, uids, given.log);
  const socket = await openOwnSocket({ server: given.server, base: place.base, uid: uids && daemonUid(uids) });
  const launcherPath = socket.beside(LAUNCHER_SOCKET);
  const launcher =
    isolation &&
    startLauncher({
      command: isolation.launcherCommand,
      input: { block: isolation.uids, socketPath: launcherPath, base: place.base, daemonDir: place.daemons },
      log: given.log,
    });
  const secretValues = secretsOf(given.config);
  const daemons = new DaemonsProcess({
    command: isolation?.command ?? given.command,
    input: {
      ...inputOf(given, secretValues),
      socketPath: socket.path,
      cacheDir: isolation ? place.daemons : given.config.cacheDirectory,
      isolation: uids && { uids, launcherPath, socketsDir: place.sockets },
    },
    env: { ...daemonEnvironment(given.env, secretValues), ...(uids ? { HOME: place.home } : {}) },
    cwd: place.daemons,
    beforeRestart: () => {
      if (uids) putOwnersRight(place, uids, given.log, true);
    },
    log: given.log,
  });
  // the server is ready without waiting for that; a launcher that dies is started again, and jobs say so meanwhile
  if (launcher) void launcher.ready.finally(() => daemons.start()).catch(() => {});
  else daemons.start();

  return {
    warnings: [],
    problem: () => daemons.problem() ?? launcher?.problem(),
    socket,
    announce: (update) => daemons.announce(update),
    end: (how) => daemons.end(how),
    async close() {
      await daemons.close();
      await launcher?.close();
      await socket.close();
    },
  };
}

/** What the daemons' process receives, without what depends on its folders. */
function inputOf(
  { config, serverUrl, namePrefix, installationSecret, version }: BuiltinDaemonsOptions,
  secretValues: string[],
): Omit<BuiltinDaemonsInput, 'socketPath' | 'cacheDir' | 'isolation'> {
  return {
    serverUrl,
    count: config.provisionerDaemons,
    namePrefix,
    terraformBinaries: config.terraformBinary,
    terraformDownloads: config.terraformDownload,
    terraformProvider: config.terraformProvider,
    terraformBaseUrl: config.terraformDownloadUrl,
    installationSecret,
    version,
    verbose: config.verbose,
    secretValues,
  };
}

/** @throws NotIsolatedError if the daemons' user cannot write to its folders */
function claimFolders(place: Folders, uids: UidBlock, log: Logger): void {
  putOwnersRight(place, uids, log, false);
  const why = whyUnreachable(daemonUid(uids), { write: [place.daemons, place.home] });
  if (why !== undefined) throw new NotIsolatedError(why);
}

function putOwnersRight({ daemons }: Folders, uids: UidBlock, log: Logger, thorough: boolean): void {
  try {
    ownFiles(daemons, daemonUid(uids), { thorough });
  } catch (err) {
    log.warn("could not put right the owners of the daemons' files", { path: daemons, err: errorText(err) });
  }
}

interface Folders {
  /** Root's folder with the records to keep. */
  base: string;
  /** The daemons' own folder, in the cache directory or next to `base`. */
  daemons: string;
  home: string;
  sockets: string;
}

/** Creates the folders that the daemons need, with their owners. */
export function folders(configDir: string, cacheDirectory: string, uids: UidBlock | undefined): Folders {
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
