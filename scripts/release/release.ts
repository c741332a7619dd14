// `npm run release [-- SYSTEM...]` makes all artifacts of the version whose tag the checkout has: see CONTRIBUTING.md. The default is
// every system. Everything is in dist/release: executables, systemd units, install.sh, npm packages, charts, a bill of materials,
// notes, and SHA256SUMS of all of them.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { npmParts, programPart, spdx } from '../sbom.ts';
import { notesOf } from './changelog.ts';
import { makeNpmPackages } from './npm-packages.ts';

const root = dirname(dirname(import.meta.dirname));
const dist = join(root, 'dist');
const out = join(dist, 'release');

function run(command: string, ...args: string[]): string {
  const { status, stdout, error } = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed${error ? `: ${error.message}` : ''}`);
  return stdout.trim();
}

/** The version to release. @throws Error if the checkout is not exactly the commit of that version's tag */
function taggedVersion(): string {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  if (run('git', 'status', '--porcelain') !== '') throw new Error('The checkout has changes that are not committed.');
  if (!run('git', 'tag', '--points-at', 'HEAD').split('\n').includes(`v${version}`))
    throw new Error(`HEAD does not have the tag v${version}. Make it with \`npm version\`, or check it out.`);
  return version;
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(join(out, file)), hash);
  return hash.digest('hex');
}

/** Packs each chart as Helm does, with the files of the charts that it contains. */
function packCharts(version: string): void {
  for (const name of ['coder', 'coder-operator', 'coder-provisioner'])
    run('tar', '-czhf', join(out, `${name}-${version}.tgz`), '-C', join(root, 'charts'), name);
}

const version = taggedVersion();
const created = new Date(Number(run('git', 'log', '-1', '--format=%ct')) * 1000).toISOString().replace('.000Z', 'Z');
const systems = process.argv.slice(2);
rmSync(out, { recursive: true, force: true });
for (const old of globSync('coder*-*', { cwd: dist })) rmSync(join(dist, old));
run(process.execPath, 'scripts/build.ts', ...(systems.length > 0 ? systems : ['all']));
mkdirSync(out);
for (const file of globSync(['coder*-*', 'install.sh', '*.service'], { cwd: dist }))
  copyFileSync(join(dist, file), join(out, basename(file)));
const executables = globSync('coder*-*', { cwd: out }).sort();
makeNpmPackages(out, version, out);
packCharts(version);
const programs = await Promise.all(executables.map(async (name) => programPart(name, version, await sha256(name))));
const sbom = spdx({
  name: `ropewalk ${version}`,
  namespace: `urn:sha256:${programs[0]!.checksum!.checksumValue}:release`,
  created,
  tool: 'scripts/release/release.ts',
  parts: [...programs, ...npmParts()],
});
writeFileSync(join(out, 'sbom.spdx.json'), `${JSON.stringify(sbom, null, 1)}\n`);
writeFileSync(join(out, 'NOTES.md'), notesOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version));
const files = globSync('*', { cwd: out }).sort();
const sums = await Promise.all(files.map(async (file) => `${await sha256(file)}  ${file}\n`));
writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
console.log(`${relative(root, out)}: ${files.length + 1} files of version ${version}`);
