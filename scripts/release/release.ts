// `npm run release [-- SYSTEM...]` makes all artifacts of the version whose tag the checkout has: see CONTRIBUTING.md. The default is
// every system. Everything is in dist/release: executables, systemd units, install.sh, npm packages, charts, a bill of materials,
// notes, and SHA256SUMS of all of them.
import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { committedAt, isoSeconds, run } from '../run.ts';
import { npmParts, programPart, spdx } from '../sbom.ts';
import { notesOf } from './changelog.ts';
import { makeNpmPackages } from './npm-packages.ts';

const root = dirname(dirname(import.meta.dirname));
const dist = join(root, 'dist');
const out = join(dist, 'release');

const git = (...args: string[]) => run('git', args, { cwd: root }).toString().trim();

/** The version to release. @throws Error if the checkout is not exactly the commit of that version's tag */
function taggedVersion(): string {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  if (git('status', '--porcelain') !== '') throw new Error('The checkout has changes that are not committed.');
  if (!git('tag', '--points-at', 'HEAD').split('\n').includes(`v${version}`))
    throw new Error(`HEAD does not have the tag v${version}. Make it with \`npm version\`, or check it out.`);
  return version;
}

const sums = new Map<string, string>();

/** The SHA-256 of a file of the release, in hex. Each is read once. */
async function sumOf(file: string): Promise<string> {
  const known = sums.get(file);
  if (known) return known;
  const hash = createHash('sha256');
  await pipeline(createReadStream(join(out, file)), hash);
  const sum = hash.digest('hex');
  sums.set(file, sum);
  return sum;
}

/** Packs each chart as Helm does, with the files of the charts that it contains. */
function packCharts(version: string): void {
  for (const name of ['coder', 'coder-operator', 'coder-provisioner'])
    run('tar', ['-czhf', join(out, `${name}-${version}.tgz`), '-C', join(root, 'charts'), name]);
}

const version = taggedVersion();
const systems = process.argv.slice(2);
rmSync(out, { recursive: true, force: true });
for (const old of globSync('coder*-*', { cwd: dist })) rmSync(join(dist, old));
run(process.execPath, ['scripts/build.ts', ...(systems.length > 0 ? systems : ['all'])], { cwd: root });
mkdirSync(out);
for (const file of globSync(['coder*-*', 'install.sh', '*.service'], { cwd: dist }))
  copyFileSync(join(dist, file), join(out, basename(file)));
const executables = globSync('coder*-*', { cwd: out }).sort();
makeNpmPackages(out, version, out);
packCharts(version);
const programs = await Promise.all(executables.map(async (name) => programPart(name, version, await sumOf(name))));
const sbom = spdx({
  name: `ropewalk ${version}`,
  namespace: `urn:sha256:${createHash('sha256').update(JSON.stringify(programs)).digest('hex')}`,
  created: isoSeconds(committedAt(root)),
  tool: 'scripts/release/release.ts',
  parts: [...programs, ...npmParts()],
});
writeFileSync(join(out, 'sbom.spdx.json'), `${JSON.stringify(sbom, null, 1)}\n`);
writeFileSync(join(out, 'NOTES.md'), notesOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version));
const files = globSync('*', { cwd: out }).sort();
const lines = await Promise.all(files.map(async (file) => `${await sumOf(file)}  ${file}\n`));
writeFileSync(join(out, 'SHA256SUMS'), lines.join(''));
console.log(`${relative(root, out)}: ${files.length + 1} files of version ${version}`);
