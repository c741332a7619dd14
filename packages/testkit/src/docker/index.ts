import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const PROGRAM = join(import.meta.dirname, 'program.ts');
const MAIN = join(import.meta.dirname, '../../../cli/src/main.ts');

export interface TestDocker {
  /** A folder for the front of PATH, with `docker` (the stand-in) and `devcontainer` (the real command). */
  bin: string;
  /** A single file that is the coder command, which an agent can copy into a container. */
  coder: string;
  /** Runs a docker command and returns its output. */
  docker(...args: string[]): string;
  /** Returns the arguments of all docker commands so far. */
  log(): string;
  /** Ends every container. */
  close(): void;
}

/** Provides containers without Docker, for the devcontainer command of the npm package @devcontainers/cli. */
export function startTestDocker(): TestDocker {
  const home = mkdtempSync(join(tmpdir(), 'platform-docker-'));
  const bin = join(home, 'bin');
  mkdirSync(bin);
  const script = (name: string, ...words: string[]) => {
    const file = join(bin, name);
    // containers start with their own environment
    const cache = `NODE_COMPILE_CACHE=${process.env['NODE_COMPILE_CACHE'] ?? ''}`;
    const command = ['env', cache, process.execPath, ...words].map((word) => `'${word}'`).join(' ');
    writeFileSync(file, `#!/bin/sh\nexec ${command} "$@"\n`);
    chmodSync(file, 0o755);
    return file;
  };
  const file = script('docker', PROGRAM, home);
  const manifest = createRequire(import.meta.url).resolve('@devcontainers/cli/package.json');
  const { bin: commands } = JSON.parse(readFileSync(manifest, 'utf8')) as { bin: { devcontainer: string } };
  script('devcontainer', join(dirname(manifest), commands.devcontainer));
  const docker = (...args: string[]) => spawnSync(file, args, { encoding: 'utf8' }).stdout;
  return {
    bin,
    coder: script('coder', MAIN),
    docker,
    log: () => readFileSync(join(home, 'commands'), 'utf8'),
    close() {
      const ids = docker('ps', '-a', '-q').split('\n').filter(Boolean);
      if (ids.length > 0) docker('rm', '-f', ...ids);
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Writes a dev container's configuration. Its container sees the folder at the same path. Returns the file's path. */
export function writeDevcontainer(folder: string, more: object = {}): string {
  const file = join(folder, '.devcontainer/devcontainer.json');
  mkdirSync(dirname(file), { recursive: true });
  const workspaceMount = `source=${folder},target=${folder},type=bind`;
  writeFileSync(file, JSON.stringify({ image: 'example/base:1', workspaceFolder: folder, workspaceMount, ...more }));
  return file;
}
