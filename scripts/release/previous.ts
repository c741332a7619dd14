// The release before this one, from git: what a rolling upgrade starts with. `node scripts/release/previous.ts` runs its
// server's tests on a database with this checkout's schema, as its servers meet it in an upgrade. Without a newer schema it
// does nothing. `npm run test:upgrade PART` runs the tests whose path contains PART.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';

const root = dirname(dirname(import.meta.dirname));
/** Stands for a release as long as the history has no tag: what landed with the newest migration. */
const UNTAGGED = '30d3cfbf9bd12130d51b2e038ee92077f8e4f53f';
const MIGRATIONS = 'packages/server/src/db/migrations';
/** What the schema may break: the parts of its test files' paths. */
const TESTED = ['app', 'http', 'background'];
/** Of these the tests that run the same statements as others, or none: they take a third of the time. */
const UNTESTED = [
  'app/agent/devcontainers',
  'app/context/argon2',
  'app/evaluate/',
  'app/lists/search-cost',
  'app/markdown/',
  'app/outbound/',
  'app/parameters/',
  'app/threads/',
  'app/values/',
  'background/builtin-isolation',
  'http/apps/hostile',
  'http/builtin-secret',
  'http/dashboard/',
  'http/database-stall',
  'http/heavy-bodies',
  'http/odd-input',
  'http/options-effect',
  'http/rate-limit',
  'http/stream-limits',
  'http/tls',
  'http/unfinished-bodies',
];

function git(...args: string[]): { ok: boolean; out: string } {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 });
  return { ok: status === 0, out: (stdout ?? '').trim() };
}

/** Its commit: PREVIOUS_RELEASE, or that of the newest tag before HEAD. Undefined in a clone without history. */
export function previousCommit(): string | undefined {
  const chosen = process.env['PREVIOUS_RELEASE'];
  const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v[0-9]*', 'HEAD^');
  const { ok, out } = git('rev-parse', '--verify', '--quiet', `${chosen ?? (tag.ok ? tag.out : UNTAGGED)}^{commit}`);
  return ok ? out : undefined;
}

function run(folder: string, file: string, args: string[], env = process.env): void {
  const { status } = spawnSync(file, args, {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    env,
    timeout: 600_000,
  });
  if (status !== 0) throw new Error(`${basename(file)} ${args.join(' ')} failed in ${folder}`);
}

/** Makes a step's result once. An interrupted step begins again. */
function once(folder: string, name: string, make: () => void): void {
  const done = join(folder, `.${name}`);
  if (existsSync(done)) return;
  make();
  writeFileSync(done, '');
}

/** Extracts the release with its dependencies, and returns its folder in dist/. */
function checkOut(commit: string): string {
  const folder = join(root, 'dist/previous-release', commit);
  ensureDirectorySync(folder);
  once(folder, 'extracted', () => {
    run(root, 'sh', ['-c', `git archive ${commit} | tar -x -C "$1"`, 'sh', folder]);
    const modules = join(folder, 'node_modules');
    rmSync(modules, { recursive: true, force: true });
    if (!git('diff', '--quiet', commit, '--', 'package-lock.json', 'patches').ok) return run(folder, 'npm', ['ci']);
    // the same dependencies. The links to the project's own packages are relative: they lead to those of the release
    mkdirSync(modules);
    for (const name of readdirSync(join(root, 'node_modules'))) {
      const [from, to] = [join(root, 'node_modules', name), join(modules, name)];
      if (name === '@ropewalk') cpSync(from, to, { recursive: true, verbatimSymlinks: true });
      else symlinkSync(from, to);
    }
  });
  return folder;
}

/** Builds the executable of the release for this machine, once. Returns its path. */
export function previousExecutable(commit: string): string {
  const folder = checkOut(commit);
  once(folder, 'built', () => run(folder, process.execPath, ['scripts/build.ts']));
  return globSync(join(folder, 'dist', `coder-${process.platform}-*`))[0]!;
}

/** The test files of a checkout's server that newer schemas may break. */
function filesOfSchema(folder: string): string[] {
  const files = TESTED.flatMap((part) => globSync(`packages/server/src/${part}/**/*.test.ts`, { cwd: folder }));
  return files.filter((file) => !UNTESTED.some((part) => file.startsWith(`packages/server/src/${part}`)));
}

/** Runs tests of the release with this checkout's migrations, without PARTS all that need the schema. Returns the exit status. */
function testOnNewerSchema(commit: string, parts: string[]): number {
  const folder = checkOut(commit);
  const own = globSync('*.sql', { cwd: join(root, MIGRATIONS) });
  const known = new Set(globSync('*.sql', { cwd: join(folder, MIGRATIONS) }));
  const newer = own.filter((file) => !known.has(file));
  if (newer.length === 0) {
    console.log(`The schema is that of ${commit.slice(0, 8)}.`);
    return 0;
  }
  for (const file of newer) copyFileSync(join(root, MIGRATIONS, file), join(folder, MIGRATIONS, file));
  try {
    const chosen = parts.length > 0 ? parts : filesOfSchema(folder);
    const { status } = spawnSync(process.execPath, ['scripts/test.ts', ...chosen], { cwd: folder, stdio: 'inherit' });
    return status ?? 1;
  } finally {
    for (const file of newer) rmSync(join(folder, MIGRATIONS, file));
  }
}

if (import.meta.main) {
  const commit = previousCommit();
  if (commit) process.exit(testOnNewerSchema(commit, process.argv.slice(2)));
  console.error('This clone has no history. Run `git fetch --unshallow --tags`.');
  process.exit(1);
}
