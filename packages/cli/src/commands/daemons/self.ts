import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

const OS: Partial<Record<NodeJS.Platform, string>> = { linux: 'linux', darwin: 'darwin', win32: 'windows' };
const ARCH: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64', arm: 'armv7' };

const executableName = (os: string, arch: string) => `coder-${os}-${arch}${os === 'windows' ? '.exe' : ''}`;

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url));

/** Whether this process is the coder command itself, not a program, such as a test, that uses parts of it. */
export function startedAsProgram(): boolean {
  return isSea() || process.argv[1] === MAIN;
}

/** The program and arguments that run a command of this very program again, as executable or as checkout. */
export function selfCommand(...words: string[]): string[] {
  if (isSea()) return [process.execPath, ...words];
  return [process.execPath, MAIN, ...words];
}

/** One file that is the coder command: the single executable, or a checkout's script. */
export function selfExecutable(): string | undefined {
  if (isSea()) return process.execPath;
  const script = fileURLToPath(new URL('../../../../../scripts/coder.mjs', import.meta.url));
  return existsSync(script) ? script : undefined;
}

/**
 * Finds executables for workspaces by published names of system and architecture: the single executable serves itself
 * and its siblings; a checkout builds the one of this platform when it is first asked for.
 */
export function binaryFinder(): (os: string, arch: string) => Promise<string | undefined> {
  const mine = (os: string, arch: string) => os === OS[process.platform] && arch === ARCH[process.arch];
  const existing = (path: string) => (existsSync(path) ? path : undefined);
  if (isSea()) {
    const dir = dirname(process.execPath);
    return async (os, arch) => (mine(os, arch) ? process.execPath : existing(join(dir, executableName(os, arch))));
  }
  const root = fileURLToPath(new URL('../../../../../', import.meta.url));
  let building: Promise<void> | undefined;
  return async (os, arch) => {
    const path = join(root, 'dist', executableName(os, arch));
    const script = join(root, 'scripts/build.ts');
    if (existing(path) === undefined && mine(os, arch) && existsSync(script)) {
      building ??= build(script, root).finally(() => {
        building = undefined;
      });
      await building;
    }
    return existing(path);
  };
}

async function build(script: string, cwd: string): Promise<void> {
  const child = spawn(process.execPath, [script], { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
  // what is absent afterwards is the answer; the script says on stderr why
  await new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
}
