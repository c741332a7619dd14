import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { invoke } from '../../testing/invoke.ts';

let home: string;
let repo: string;
let clone: string;
const env = () => ({ ...process.env, HOME: home, GIT_CONFIG_NOSYSTEM: '1', CODER_CONFIG_DIR: join(home, 'config') });
const git = (...args: string[]) =>
  execFileSync('git', ['-C', repo, '-c', 'user.name=me', '-c', 'user.email=me@example.com', ...args], {
    env: env(),
    stdio: 'pipe',
  });

function commit(files: Record<string, string>, executable: string[] = []): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(repo, name)), { recursive: true });
    writeFileSync(join(repo, name), text, { mode: executable.includes(name) ? 0o755 : 0o644 });
  }
  git('add', '.');
  git('commit', '-q', '-m', 'x');
}

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'dotfiles-'));
  repo = join(home, 'repo');
  clone = join(home, 'config/dotfiles');
  mkdirSync(repo);
  git('init', '-q', '-b', 'main');
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const dotfiles = (...args: string[]) => invoke(['dotfiles', repo, ...args], env());
async function good(...args: string[]) {
  const done = await dotfiles('--yes', ...args);
  assert.equal(done.code, 0, done.stderr);
  return done;
}
const at = (...path: string[]) => readFileSync(join(home, ...path), 'utf8');

test('links dotfiles, renames existing files, and pulls in a second run', async () => {
  commit({ '.bashrc': 'one', '.config/app': 'a', 'README.md': 'r', 'install/readme': 'a folder, not a script' });
  writeFileSync(join(home, '.bashrc'), 'mine');
  writeFileSync(join(home, '.bashrc.bak'), 'older');
  assert.match((await good()).stdout, /Linked in .*: \.bashrc, \.config\n/);
  assert.equal(readlinkSync(join(home, '.bashrc')), join(clone, '.bashrc'));
  assert.equal(at('.config/app'), 'a');
  assert.equal(at('.bashrc.bak.1'), 'mine');
  assert.equal(at('.bashrc.bak'), 'older');
  assert.ok(!existsSync(join(home, 'README.md')) && !existsSync(join(home, '.git')));
  assert.equal(at('config/dotfilesurl'), repo);
  commit({ '.bashrc': 'two', '.new': 'n' });
  assert.match((await good()).stdout, /: \.new\n/);
  assert.equal(at('.bashrc'), 'two');
  assert.match((await good()).stdout, /Nothing to do/);
  assert.ok(!existsSync(join(home, '.bashrc.bak.2')));
});

test('links a folder that contains the repository entry by entry', async () => {
  commit({ '.config/app/rc': 'new', '.config/other': 'o', '.z': 'z' });
  mkdirSync(join(home, '.config/app'), { recursive: true });
  writeFileSync(join(home, '.config/app/rc'), 'mine');
  const inside = { ...env(), CODER_CONFIG_DIR: join(home, '.config/coderv2') };
  const done = await invoke(['dotfiles', repo, '--yes'], inside);
  assert.match(done.stdout, /: \.config\/app, \.config\/other, \.z\n/, done.stderr);
  assert.equal(at('.config/app/rc'), 'new');
  assert.equal(at('.config/app.bak/rc'), 'mine');
  assert.equal(at('.z'), 'z');
  assert.match((await invoke(['dotfiles', repo, '--yes'], inside)).stdout, /Nothing to do/);
});

test('runs the first script in the repository, executable or not, instead of linking', async () => {
  const says = (word: string) => `#!/bin/sh\necho ${word} in $PWD; echo ${word} >> "$HOME/ran"\n`;
  commit({ 'setup.sh': says('setup'), 'script/bootstrap': says('bootstrap'), '.bashrc': 'x' }, ['script/bootstrap']);
  const { stdout, stderr } = await good();
  assert.match(stdout, /script\/bootstrap has finished/);
  assert.match(stderr, new RegExp(`bootstrap in ${clone}`));
  commit({ 'install.sh': says('install') });
  await good();
  assert.equal(at('ran'), 'bootstrap\ninstall\n');
  assert.ok(!existsSync(join(home, '.bashrc')));
  commit({ 'install.sh': 'exit 3' });
  const failed = await dotfiles('-y');
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /error: install\.sh exited with code 3\./);
});

test('uses --branch, --repo-dir and --symlink-dir', async () => {
  commit({ '.a': 'main' });
  git('checkout', '-q', '-b', 'other');
  commit({ '.a': 'other' });
  git('tag', 'v1');
  git('checkout', '-q', 'main');
  const to = ['--symlink-dir', '~/links/here', '--repo-dir', 'mine/dots'];
  await good('-b', 'other', ...to);
  assert.equal(at('links/here/.a'), 'other');
  assert.ok(existsSync(join(home, 'config/mine/dots/.git')));
  await good('-b', 'main', ...to);
  assert.equal(at('links/here/.a'), 'main');
  await good('-b', 'v1', ...to);
  assert.equal(at('links/here/.a'), 'other');
});

test('replaces another repository and keeps the old one', async () => {
  commit({ '.a': 'first' });
  await good();
  const first = repo;
  repo = join(home, 'repo2');
  mkdirSync(repo);
  git('init', '-q', '-b', 'main');
  commit({ '.b': 'second' });
  assert.match((await good()).stderr, /Renamed the previous/);
  assert.equal(at('.b'), 'second');
  assert.equal(readFileSync(`${clone}.bak/.a`, 'utf8'), 'first');
  assert.notEqual(first, at('config/dotfilesurl'));
});

test('reports failures and changes nothing', async () => {
  commit({ '.a': 'one' });
  assert.match((await dotfiles()).stderr, /Apply the dotfiles.*--yes/);
  const gone = await dotfiles('-y', '--branch', 'nope');
  assert.match(gone.stderr, /nope[\s\S]*error: Could not clone the repository/);
  assert.deepEqual(readdirSync(join(home, 'config')), [], 'no half clone is left');
  assert.match((await dotfiles('-y', '--repo-dir', '.')).stderr, /a separate directory/);
  assert.match((await dotfiles('-y', '--repo-dir', '..')).stderr, /a separate directory/);
  assert.match((await dotfiles('-y', '--branch=--upload-pack=x')).stderr, /cannot begin with "-"/);
  const secret = await invoke(['dotfiles', 'http://me:hunter2@127.0.0.1:1/x', '-y'], env());
  assert.equal(secret.code, 1);
  assert.doesNotMatch(secret.stdout + secret.stderr, /hunter2/);
  await good();
  writeFileSync(join(clone, '.a'), 'changed here');
  commit({ '.a': 'two' });
  assert.match((await dotfiles('-y')).stderr, /it has local changes/);
  assert.equal(readFileSync(join(clone, '.a'), 'utf8'), 'changed here');
  assert.ok(lstatSync(join(home, '.a')).isSymbolicLink());
});
