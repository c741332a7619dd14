import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { type Clock, createLogger, silentLogger, systemClock } from '@ropewalk/kit';
import { ensureDirectorySync } from '@ropewalk/kit/directory';
import { builtIn } from './built-in.ts';
import { createTemplateCatalog, type TemplateCatalog } from './catalog.ts';
import { readFolder } from './folder.ts';
import { gitAddress } from './git.ts';

const root = mkdtempSync(join(tmpdir(), 'catalog-'));
after(() => rmSync(root, { recursive: true, force: true }));

const README = '---\ndisplay_name: Own\nicon: /icon/git.svg\n---\n\n# Own\n\nNeeds a machine.\n';
const AGENT = 'resource "coder_agent" "dev" {\n  os   = "linux"\n  arch = "amd64"\n}\n';
const MODULE = 'variable "agent_id" {\n  type = string\n}\n';
const GOOD = {
  'bases/own/README.md': README,
  'bases/own/main.tf': AGENT,
  'bases/own/scripts/start.sh': 'true\n',
  'modules/tool/README.md': `${README.replace('Own\n', 'Tool\ncategory: Apps\nversion: 2\ncompatible_os: [linux]\nconflicts_with: [port-app]\n')}`,
  'modules/tool/main.tf': MODULE,
};

let count = 0;
function folder(files: Record<string, string>): string {
  const path = join(root, `folder-${count++}`);
  for (const [name, text] of Object.entries(files)) {
    ensureDirectorySync(dirname(join(path, name)));
    writeFileSync(join(path, name), text);
  }
  return path;
}

test('reads bases and modules of a folder', async () => {
  const { bases, modules, problems } = await readFolder(folder({ ...GOOD, 'README.md': 'x', 'bases/.git/x': 'x' }));
  assert.deepEqual(problems, []);
  const { files, parsed, ...base } = bases.get('own')!;
  assert.deepEqual([...files.keys()].sort(), ['README.md', 'main.tf', 'scripts/start.sh']);
  assert.deepEqual(
    parsed.map(({ filename }) => filename),
    ['main.tf'],
  );
  assert.deepEqual(base, {
    id: 'own',
    name: 'Own',
    description: '',
    icon: '/icon/git.svg',
    variables: [],
    slugs: [],
    os: 'linux',
    agent: 'dev',
    prerequisites: 'Needs a machine.',
  });
  const { files: _, parsed: __, ...module } = modules.get('tool')!;
  assert.deepEqual(module, {
    id: 'tool',
    name: 'Tool',
    description: '',
    icon: '/icon/git.svg',
    variables: [],
    slugs: [],
    category: 'Apps',
    version: '2',
    compatibleOs: ['linux'],
    conflictsWith: ['port-app'],
  });
});

describe('names the file that is wrong, and keeps the others', () => {
  const CASES: [string, Record<string, string>, RegExp][] = [
    ['no README', { 'bases/x/main.tf': AGENT }, /^bases\/x\/README\.md is missing/],
    ['bad YAML', { 'bases/x/README.md': '---\na: [\n---\n' }, /^bases\/x\/README\.md: invalid front matter: /],
    ['a list as front matter', { 'bases/x/README.md': '---\n- a\n---\n' }, /not a list of keys/],
    [
      'a name that is a list',
      { 'bases/x/README.md': '---\ndisplay_name: [a]\n---\n', 'bases/x/a.tf': AGENT },
      /"display_name" must be a text/,
    ],
    ['no Terraform', { 'bases/x/README.md': README }, /^bases\/x has no \.tf file\.$/],
    ['bad Terraform', { 'bases/x/README.md': README, 'bases/x/a.tf': `${AGENT}\nx = {` }, /^bases\/x\/a\.tf:\d+: /],
    ['no agent', { 'bases/x/README.md': README, 'bases/x/a.tf': 'locals {}' }, /^bases\/x has 0 coder_agent/],
    [
      'two agents',
      { 'bases/x/README.md': README, 'bases/x/a.tf': AGENT + AGENT.replace('dev', 'b') },
      /has 2 coder_agent/,
    ],
    [
      'a counted agent',
      { 'bases/x/README.md': README, 'bases/x/a.tf': AGENT.replace('{', '{\n  count = 2') },
      /^bases\/x\/a\.tf: the coder_agent resource of a base has no "count"\.$/,
    ],
    ['JSON', { 'bases/x/README.md': README, 'bases/x/a.tf.json': '{}' }, /^bases\/x\/a\.tf\.json: Write it in/],
    ['an override', { 'bases/x/README.md': README, 'bases/x/a_override.tf': '' }, /Override files/],
    ['values', { 'bases/x/README.md': README, 'bases/x/a.auto.tfvars': '' }, /Files of variable values/],
    [
      'a reserved file',
      { 'bases/x/README.md': README, 'bases/x/a.tf': AGENT, 'bases/x/modules.tf': '' },
      /^bases\/x\/modules\.tf: the builder writes/,
    ],
    [
      'a reserved folder',
      { 'bases/x/README.md': README, 'bases/x/a.tf': AGENT, 'bases/x/modules/y/a.tf': '' },
      /the builder writes/,
    ],
    [
      'a type that nobody can enter',
      { 'bases/x/README.md': README, 'bases/x/a.tf': `${AGENT}variable "l" {\n  type = list(string)\n}\n` },
      /^bases\/x\/a\.tf: the variable "l" has the type list\(string\)/,
    ],
    [
      'an unknown system',
      { 'bases/x/README.md': README.replace('icon', 'os: beos\nicon'), 'bases/x/a.tf': AGENT },
      /unknown operating system "beos"/,
    ],
    [
      'a bad name',
      { 'bases/Bad_Name/README.md': README, 'bases/Bad_Name/a.tf': AGENT },
      /^Invalid folder name "bases\/Bad_Name"/,
    ],
    ['a file among the folders', { 'bases/x.tf': '' }, /^bases\/x\.tf is not a folder\.$/],
    [
      'a module without agent_id',
      { 'modules/x/README.md': README, 'modules/x/a.tf': 'locals {}' },
      /^modules\/x has no variable "agent_id"/,
    ],
    [
      'a module with a provider',
      { 'modules/x/README.md': README, 'modules/x/a.tf': `${MODULE}provider "aws" {}\n` },
      /^modules\/x\/a\.tf: only a base configures providers\.$/,
    ],
    ['neither folder', { 'other/x': '' }, /neither a folder "bases" nor a folder "modules"/],
  ];
  for (const [name, files, expected] of CASES)
    test(name, async () => {
      const alone = name === 'neither folder';
      const { bases, modules, problems } = await readFolder(folder(alone ? files : { ...GOOD, ...files }));
      assert.equal(problems.length, 1, problems.join('\n'));
      assert.match(problems[0]!, expected);
      assert.deepEqual([bases.size, modules.size], alone ? [0, 0] : [1, 1]);
    });

  test('links, large files and too many files', async () => {
    const path = folder(GOOD);
    symlinkSync('/etc/passwd', join(path, 'bases/own/passwd'));
    assert.match((await readFolder(path)).problems[0]!, /^bases\/own\/passwd is not a regular file\.$/);
    rmSync(join(path, 'bases/own/passwd'));
    symlinkSync('/etc', join(path, 'bases/etc'));
    assert.match((await readFolder(path)).problems[0]!, /^bases\/etc is not a folder\.$/);
    rmSync(join(path, 'bases/etc'));
    truncateSync(join(path, 'bases/own/scripts/start.sh'), 256 * 1024 + 1);
    assert.match((await readFolder(path)).problems[0]!, /start\.sh is larger than 256 KiB/);
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`bases/own/f${i}`, 'x']));
    assert.match(
      (await readFolder(folder({ ...GOOD, ...many }))).problems[0]!,
      /^bases\/own has more than 100 files\.$/,
    );
    const large = `# ${'x'.repeat(200_000)}\n`;
    const both = { ...GOOD, 'bases/own/a.tf': large, 'bases/own/b.tf': large };
    assert.match(
      (await readFolder(folder(both))).problems[0]!,
      /^bases\/own: its \.tf files together are larger than 64 KiB/,
    );
    assert.match((await readFolder(join(root, 'absent'))).problems[0]!, /neither/);
  });
});

/** A clock that the test moves. */
function movable(): { clock: Clock; pass(ms: number): void } {
  let past = 0;
  return {
    clock: { ...systemClock, now: () => new Date(Date.now() + past) },
    pass(ms) {
      past += ms;
    },
  };
}

function repository(files: Record<string, string>): { path: string; commit(more: Record<string, string>): void } {
  const path = folder(files);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { cwd: path, stdio: 'pipe' });
  git('init', '--quiet', '--initial-branch=main');
  const commit = (more: Record<string, string>) => {
    for (const [name, text] of Object.entries(more)) {
      ensureDirectorySync(dirname(join(path, name)));
      writeFileSync(join(path, name), text);
    }
    git('add', '.');
    git('commit', '--quiet', '-m', 'x');
  };
  commit({});
  git('tag', 'first');
  return { path, commit };
}

async function withCatalog(
  source: string,
  use: (catalog: TemplateCatalog, pass: (ms: number) => void, lines: string[]) => Promise<void>,
) {
  const { clock, pass } = movable();
  const lines: string[] = [];
  const log = createLogger({ level: 'info', sinks: [{ format: 'json', write: (line) => void lines.push(line) }] });
  const cacheDirectory = join(root, 'cache');
  const catalog = createTemplateCatalog({ source, cacheDirectory, env: process.env, clock, log });
  try {
    await use(catalog, pass, lines);
  } finally {
    await catalog.close();
  }
  assert.deepEqual(readdirSync(cacheDirectory), [], 'no clone remains');
}

describe('the source of an administrator', () => {
  ensureDirectorySync(join(root, 'cache'));
  test('without one, offers what the release contains', () =>
    withCatalog('', async (catalog) => assert.equal(await catalog.read(), builtIn())));

  test('a folder adds to it, replaces by id, and is read again', async () => {
    const path = folder({ ...GOOD, 'bases/docker/README.md': README, 'bases/docker/main.tf': AGENT });
    await withCatalog(path, async (catalog, pass) => {
      const { bases, modules } = await catalog.read();
      assert.equal(bases.size, builtIn().bases.size + 1);
      assert.equal(bases.get('docker')!.name, 'Own');
      assert.ok(modules.has('tool') && modules.has('dotfiles'));
      writeFileSync(join(path, 'bases/own/main.tf'), 'x');
      assert.ok((await catalog.read()).bases.has('own'));
      pass(3_000);
      const now = await catalog.read();
      assert.ok(!now.bases.has('own'));
      assert.match(now.problems.join(), new RegExp(`^${path}: bases/own/main\\.tf:1: `));
    });
  });

  test('a repository is cloned, read again later, and kept when it fails', async () => {
    const { path, commit } = repository(GOOD);
    await withCatalog(`file://${path}`, async (catalog, pass, lines) => {
      assert.ok((await catalog.read()).bases.has('own'));
      commit({ 'bases/second/README.md': README, 'bases/second/main.tf': AGENT });
      assert.ok(!(await catalog.read()).bases.has('second'));
      const later = async () => {
        pass(301_000);
        const shown = await catalog.read();
        // the clone that this read started
        for (let now = shown; now === shown; now = await catalog.read()) await new Promise((r) => setImmediate(r));
        return catalog.read();
      };
      assert.ok((await later()).bases.has('second'));
      rmSync(path, { recursive: true });
      const failed = await later();
      assert.ok(failed.bases.has('second'));
      assert.match(failed.problems[0]!, /^file:.*: git clone failed: fatal: /);
      assert.equal(lines.length, 1, lines.join());
    });
  });

  test('a tag is cloned, and an unknown one is a problem', async () => {
    const { path, commit } = repository(GOOD);
    commit({ 'bases/second/README.md': README, 'bases/second/main.tf': AGENT });
    await withCatalog(`file://${path}#first`, async (catalog) => {
      const { bases, problems } = await catalog.read();
      assert.deepEqual([bases.has('own'), bases.has('second'), problems], [true, false, []]);
    });
    await withCatalog(`file://${path}#absent`, async (catalog) => {
      const { bases, problems } = await catalog.read();
      assert.equal(bases.size, builtIn().bases.size);
      assert.match(problems[0]!, /absent/);
    });
  });

  test('closing ends a clone', async () => {
    const { createServer } = await import('node:net');
    const silent = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => silent.once('listening', resolve));
    const { port } = silent.address() as { port: number };
    const connected = new Promise((resolve) => silent.once('connection', resolve));
    const options = { cacheDirectory: join(root, 'cache'), env: process.env, clock: systemClock, log: silentLogger };
    const catalog = createTemplateCatalog({ source: `git://127.0.0.1:${port}/x`, ...options });
    const reading = catalog.read();
    await connected;
    await catalog.close();
    assert.ok((await reading).problems.length > 0);
    silent.close();
  });

  test('rejects passwords, odd refs and relative folders', () => {
    assert.deepEqual(gitAddress('git@example.com:a/b.git#v1'), { url: 'git@example.com:a/b.git', ref: 'v1' });
    assert.deepEqual(gitAddress('https://user@example.com/x'), { url: 'https://user@example.com/x' });
    assert.equal(gitAddress('/srv/templates'), undefined);
    const message = (source: string) => {
      try {
        createTemplateCatalog({ source, cacheDirectory: '', env: {}, clock: systemClock, log: silentLogger });
      } catch (err) {
        return (err as Error).message;
      }
      return '';
    };
    assert.match(message('https://a:canary@example.com/x'), /without a password/);
    assert.doesNotMatch(message('https://a:canary@example.com/x'), /canary/);
    assert.match(message('https://example.com/x#--upload-pack=x'), /Invalid branch or tag/);
    assert.match(message('./templates'), /neither an absolute path nor a Git address/);
    assert.match(message('ext::sh -c id'), /neither/);
  });
});
