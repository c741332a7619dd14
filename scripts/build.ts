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
import { appendFiles, executableSize } from '@ropewalk/kit/appended-files';
import { isAlive } from '@ropewalk/kit/child';
import { BYTES, INDEX } from '../packages/server/src/http/dashboard/pack.ts';
import { Assets, addAgentAssets, addServerAssets } from './executable/assets.ts';
import { makeParts } from './executable/bundle.ts';
import { withoutSymbols } from './executable/elf.ts';
import { foreignPackageHome } from './executable/packages.ts';
import { PARTS } from './executable/part.ts';
import { SYSTEMS } from './executable/systems.ts';

const root = dirname(import.meta.dirname);
const dist = join(root, 'dist');
const parts = join(dist, `parts-${process.pid}`);
/** How long a build can take. */
const MAX_BUILD_MS = 3600_000;

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
  const own = join(parts, system);
  mkdirSync(own);
  const [agent, rest] = [new Assets(own), new Assets(own)];
  for (const file of ['command.js', 'command.cache']) agent.files[file] = join(parts, file);
  addAgentAssets(agent, system);
  for (const file of ['whole.js', 'whole.cache', 'worker.js']) rest.files[file] = join(parts, file);
  addServerAssets(rest, system);
  Object.assign(rest.files, dashboard);
  // a Mac runs only signed executables, and codesign signs none with appended files
  const appends = !system.startsWith('darwin');
  const output = madeAs(name);
  const config = join(own, 'sea.json');
  const home = system === OWN ? undefined : foreignPackageHome(node);
  let runtime = home ? join(home, system.startsWith('win32') ? 'bin/node.exe' : 'bin/node') : process.execPath;
  if (system.startsWith('linux')) {
    const small = join(own, 'node');
    writeFileSync(small, withoutSymbols(readFileSync(runtime)), { mode: 0o755 });
    runtime = small;
  }
  writeFileSync(
    config,
    JSON.stringify({
      main: join(parts, 'launch.js'),
      output,
      executable: runtime,
      disableExperimentalSEAWarning: true,
      // a company installs its own authority on each machine, once for all programs
      execArgv: ['--use-system-ca'],
      useCodeCache: system === OWN,
      assets: appends ? agent.files : { ...agent.files, ...rest.files },
    }),
  );
  const made = spawnSync(process.execPath, ['--build-sea', config], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (made.status !== 0 || !existsSync(output))
    fail(`Cannot build the executable for ${system}: see the messages above.`);
  if (appends) appendFiles(output, rest.files);
  if (system !== OWN) return 'not run here';
  const probe = (...words: string[]) => {
    const env = { ...process.env, NODE_DEBUG: 'coder' };
    const { status, stdout, stderr } = spawnSync(output, words, { encoding: 'utf8', env });
    if (status !== 0 || stderr !== '') fail(`The executable does not run: ${stderr || stdout}`);
    return stdout;
  };
  probe('server', '--help');
  return probe('version').split('\n')[0]!;
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
// of builds that were killed. The process of a recent one may run in a namespace where this one does not see it
for (const left of globSync('parts-*', { cwd: dist })) {
  const made = statSync(join(dist, left), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (!isAlive(Number(left.slice('parts-'.length))) && Date.now() - made > MAX_BUILD_MS)
    rmSync(join(dist, left), { recursive: true, force: true });
}
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
    const [whole, sent] = [statSync(file).size, executableSize(file)].map((size) => `${(size / 1e6).toFixed(0)} MB`);
    console.log(`${relative(root, file)}: ${whole}, of which workspaces download ${sent}: ${version}`);
  }
} catch (err) {
  console.error((err as Error).message);
  process.exitCode = 1;
} finally {
  rmSync(parts, { recursive: true, force: true });
}
