// The release as npm packages: `ropewalk`, whose `coder` runs the executable of one of the packages `ropewalk-<system>`. npm installs
// the one for its system, because each names its operating system and processor.
import { copyFileSync, existsSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { SYSTEMS } from '../executable/systems.ts';
import { run } from '../run.ts';

const root = dirname(dirname(import.meta.dirname));

const nameOf = (system: string) => `ropewalk-${system}`;

const common = (version: string) => ({
  version,
  license: 'Apache-2.0',
  engines: { node: '>=18' },
});

/** The script that finds the executable and becomes it, as far as Node.js can. It runs with any Node.js from 18. */
const LAUNCHER = `#!/usr/bin/env node
// Runs the executable of this system's package.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';

const system = process.platform + '-' + process.arch;
const file = process.platform === 'win32' ? 'coder.exe' : 'coder';
let executable;
try {
  executable = createRequire(import.meta.url).resolve('ropewalk-' + system + '/' + file);
} catch {
  console.error('The package ropewalk-' + system + ' is not installed. Install ropewalk without --omit=optional. If npm finds no');
  console.error('package of that name, there is no release for this system.');
  process.exit(1);
}
const child = spawn(executable, process.argv.slice(2), { stdio: 'inherit' });
// a signal of the terminal reaches both. The executable decides when to end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.once('error', (err) => {
  console.error('Cannot start ' + executable + ': ' + err.message);
  process.exit(1);
});
child.once('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
`;

/** Puts a file into another place, without copying its bytes where both are on one file system. */
function place(file: string, as: string): void {
  try {
    linkSync(file, as);
  } catch {
    copyFileSync(file, as);
  }
}

function pack(folder: string, out: string): string {
  const packed = run('npm', ['pack', '--silent', '--pack-destination', out], { cwd: folder });
  return packed.toString().trim().split('\n').at(-1)!;
}

/**
 * Writes the npm packages of a release to `out`.
 * @param dist the folder with the executables
 * @returns the names of the files, `ropewalk-<version>.tgz` last
 */
export function makeNpmPackages(dist: string, version: string, out: string): string[] {
  const work = join(out, '.npm');
  rmSync(work, { recursive: true, force: true });
  const folderOf = (name: string, manifest: object): string => {
    const folder = join(work, name);
    ensureDirectorySync(folder);
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, ...common(version), ...manifest }, null, 2));
    copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
    return folder;
  };
  try {
    const packages = Object.entries(SYSTEMS)
      .filter(([, { name }]) => existsSync(join(dist, name)))
      .map(([system, { name }]) => {
        const [os, cpu] = system.split('-');
        const description = `The executable of ropewalk for ${system}.`;
        const folder = folderOf(nameOf(system), { description, os: [os], cpu: [cpu], preferUnplugged: true });
        place(join(dist, name), join(folder, `coder${extname(name)}`));
        return pack(folder, out);
      });
    const folder = folderOf('ropewalk', {
      description:
        'Self-hosted development environments: server, provisioner daemons, workspace agents and one coder command',
      type: 'module',
      bin: { coder: 'coder.mjs' },
      optionalDependencies: Object.fromEntries(Object.keys(SYSTEMS).map((system) => [nameOf(system), version])),
    });
    writeFileSync(join(folder, 'coder.mjs'), LAUNCHER, { mode: 0o755 });
    copyFileSync(join(root, 'README.md'), join(folder, 'README.md'));
    return [...packages, pack(folder, out)];
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
