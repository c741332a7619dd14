import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

const OS: Partial<Record<NodeJS.Platform, string>> = { linux: 'linux', darwin: 'darwin', win32: 'windows' };
const ARCH: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64', arm: 'armv7' };

const executableName = (os: string, arch: string) => `coder-${os}-${arch}${os === 'windows' ? '.exe' : ''}`;

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url));

const CHECKOUT = fileURLToPath(new URL('../../../../../', import.meta.url));

/** Whether this process is the coder command itself, and not another program such as a test. */
export function startedAsProgram(): boolean {
  return isSea() || process.argv[1] === MAIN;
}

/** The program and arguments that run a command of this program, from the executable or the checkout. */
export function selfCommand(...words: string[]): string[] {
  if (isSea()) return [process.execPath, ...words];
  return [process.execPath, MAIN, ...words];
}

/** The processes that servers and daemons start for builds. */
const PROGRAMS = {
  /** Starts builds under other uids. */
  launcher: '@ropewalk/provisioner/isolation/entry',
  /** Runs Terraform. */
  runner: '@ropewalk/provisioner/runner/entry',
};

/** The program and arguments that run one of these processes. */
export function programCommand(name: keyof typeof PROGRAMS): string[] {
  if (isSea()) return [process.execPath, 'provisioner', name];
  return [process.execPath, createRequire(import.meta.url).resolve(PROGRAMS[name])];
}

/** The files and folders that `selfCommand` and `programCommand` run. */
export const programPaths = (): string[] =>
  isSea() ? [process.execPath] : [process.execPath, CHECKOUT.replace(/\/$/, '')];

/** One file that is the coder command: the single executable, or a checkout's script. */
export function selfExecutable(): string | undefined {
  if (isSea()) return process.execPath;
  const script = join(CHECKOUT, 'scripts/coder.mjs');
  return existsSync(script) ? script : undefined;
}

/** The executables that workspaces download. */
export interface Binaries {
  /** Finds an executable by upstream's names of system and architecture. Waits while the executable is being built. */
  find(os: string, arch: string): Promise<string | undefined>;
  /** In a checkout without the executable of this platform, builds it before a workspace needs it. */
  warm(): Promise<void>;
  /** Whether an executable is being built, so that `find` waits. */
  building(): boolean;
  /** Ends a running build. */
  close(): void;
}

/** The single executable serves itself and its siblings. A checkout builds the executable of this platform. */
export function createBinaries(root = CHECKOUT): Binaries {
  const os = OS[process.platform];
  const arch = ARCH[process.arch];
  const existing = (path: string) => (existsSync(path) ? path : undefined);
  if (isSea()) {
    const dir = dirname(process.execPath);
    return {
      find: async (...wanted) =>
        wanted[0] === os && wanted[1] === arch ? process.execPath : existing(join(dir, executableName(...wanted))),
      warm: async () => {},
      building: () => false,
      close: () => {},
    };
  }
  const pathOf = (...wanted: [string, string]) => join(root, 'dist', executableName(...wanted));
  const script = join(root, 'scripts/build.ts');
  let child: ChildProcess | undefined;
  let building: Promise<void> | undefined;
  const warm = async () => {
    if (os === undefined || arch === undefined || existing(pathOf(os, arch)) || !existsSync(script)) return;
    building ??= new Promise<void>((resolve) => {
      // the script reports errors on stderr, and a missing executable is the result
      child = spawn(process.execPath, [script], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
      child.once('error', () => resolve());
      child.once('close', () => resolve());
    }).finally(() => {
      building = undefined;
    });
    await building;
  };
  return {
    async find(...wanted) {
      if (wanted[0] === os && wanted[1] === arch) await warm();
      return existing(pathOf(...wanted));
    },
    warm,
    building: () => building !== undefined,
    close: () => void child?.kill(),
  };
}
