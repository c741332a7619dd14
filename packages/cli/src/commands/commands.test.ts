import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Node } from '../framework/context.ts';
import { globalFlags } from '../framework/globals.ts';
import type { FlagDef } from '../framework/types.ts';
import { invoke } from '../testing/invoke.ts';
import { root } from './index.ts';

const testdata = join(import.meta.dirname, '../../testdata');

function paths(node: Node, path: string[] = []): string[][] {
  return [path, ...Object.entries(node.children ?? {}).flatMap(([name, child]) => paths(child, [...path, name]))];
}

// UPDATE_GOLDEN=1 rewrites the files
test('prints the help of every command as in testdata', async (t) => {
  for (const path of paths(root)) {
    await t.test(path.join(' ') || 'coder', async () => {
      const { code, stdout, stderr } = await invoke([...path, '--help']);
      assert.equal(stderr, '');
      assert.equal(code, 0);
      const text = stdout.replace(/^coder v\S+/, 'coder v0.0.0');
      const file = join(testdata, `${['coder', ...path].join('_')}.golden`);
      if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
      assert.ok(existsSync(file), `${file} is missing`);
      assert.equal(text, readFileSync(file, 'utf8'));
    });
  }
});

test('docs/reference/commands.md lists every command', () => {
  const sections = new Map<string, string[]>();
  for (const path of paths(root)) {
    const node = path.reduce((at, name) => at.children![name]!, root);
    if (!node.load || node.hidden) continue;
    const group = root.children![path[0]!]!.group;
    if (group === undefined) continue;
    const row = `| \`coder ${path.join(' ')}\` | ${(node.summary ?? '').replaceAll('|', '\\|')} |`;
    sections.set(group, [...(sections.get(group) ?? []), row]);
  }
  const tables = [...sections].map(([group, rows]) => `## ${group}\n\n| command | |\n|---|---|\n${rows.join('\n')}\n`);
  const text = `# Commands

Made by \`npm run generate\`. Arguments and options of each: \`coder <command> --help\`.

${tables.join('\n')}`;
  const file = join(import.meta.dirname, '../../../../docs/reference/commands.md');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
  assert.equal(text, existsSync(file) ? readFileSync(file, 'utf8') : '', 'renew it by: npm run generate');
});

test('help fits 80 columns and ends its sentences', async () => {
  for (const path of paths(root)) {
    const { stdout } = await invoke([...path, '--help']);
    for (const line of stdout.split('\n')) assert.ok([...line].length <= 80, `${path.join(' ')}: ${line}`);
    const node = path.reduce((at, name) => at.children![name]!, root);
    assert.match(node.summary ?? 'No summary', /^[A-Z].*[^.]$/, path.join(' '));
    const definition = (await node.load?.())?.default.definition;
    for (const [name, flag] of Object.entries({ ...globalFlags, ...definition?.flags })) {
      const { description, hidden } = flag as FlagDef;
      if (!hidden) assert.match(description ?? '', /^[A-Z].*\.$/, `${path.join(' ')} --${name}`);
    }
  }
});

test('a flag has the same wording in every command', async () => {
  // these set something else in each command
  const differ = new Set(
    'all always-prompt build column description env file group hostname-suffix log-dir name no-wait password socket-path ssh-host-prefix status tag template template-version time timeout user wait'.split(
      ' ',
    ),
  );
  const seen = new Map<string, string>();
  for (const path of paths(root)) {
    const node = path.reduce((at, name) => at.children![name]!, root);
    const definition = (await node.load?.())?.default.definition;
    for (const [name, { description = '', hidden }] of Object.entries(definition?.flags ?? {})) {
      if (hidden || differ.has(name)) continue;
      assert.equal(description, seen.get(name) ?? description, `${path.join(' ')} --${name}`);
      seen.set(name, description);
    }
  }
});

test('gives no letter to two flags of a command', async () => {
  for (const path of paths(root)) {
    const node = path.reduce((at, name) => at.children![name]!, root);
    if (!node.load) continue;
    const { definition } = (await node.load()).default;
    const flags = { ...definition.flags, ...(await definition.loadFlags?.()) };
    const letters = Object.values(flags).flatMap((flag) => flag.short ?? []);
    assert.equal(new Set(letters).size, letters.length, path.join(' '));
  }
});

const OFFLINE =
  /^(server|reset-password|agent|gitssh|gitaskpass|external-auth|vscodessh|completion|dotfiles|version|login|stat|operator|exp (sync|mcp configure)|provisioner (builtin|cache|launcher|runner|start)|provisionerd|templates init|workspace-proxy server)\b/;

test('says how to log in where a command requires it', async (t) => {
  for (const path of paths(root)) {
    const node = path.reduce((at, name) => at.children![name]!, root);
    if (!node.load || OFFLINE.test(path.join(' '))) continue;
    await t.test(path.join(' '), async () => {
      const { definition } = (await node.load!()).default;
      const args = Object.values(definition.args ?? {}).map((def) => def.values?.[0] ?? '1h');
      const flags = Object.entries(definition.flags ?? {}).flatMap(([name, def]) =>
        def.required ? [`--${name}`, 'one'] : [],
      );
      const { code, stdout, stderr } = await invoke([...path, ...args, ...flags]);
      assert.equal(stdout, '');
      assert.match(stderr, /^(.* is deprecated.*\n)?error: You are not logged in\. Log in with: coder login <url>\n$/);
      assert.equal(code, 1);
    });
  }
});

test('explains mistakes on the command line', async () => {
  const cases: [string[], RegExp][] = [
    [['crate', 'x'], /Unknown command "crate" for `coder`\. Did you mean `coder create`\?/],
    [['templates', 'psh'], /Did you mean `coder templates push`\?/],
    [['templates', 'zzzzzz'], /See `coder templates --help`/],
    [['show'], /Missing argument <workspace>\. Usage: coder show <workspace>\n/],
    [['stop', 'a', 'b'], /Unexpected argument "b"\. Usage: coder stop <workspace>\n/],
    [
      ['autoupdate', 'a', 'often'],
      /Invalid argument "often": use always or never\. Usage: coder autoupdate <workspace> <always\|never>\n/,
    ],
    [['list', '--nope'], /Unknown flag: --nope/],
    [['login'], /Missing server URL/],
    [['login', 'http://127.0.0.1:1'], /Could not reach http:\/\/127\.0\.0\.1:1: nothing listens there/],
    [['login', 'http://a b'], /is not a URL/],
    [['provisioner', 'start', '--key', 'a', '--psk', 'b'], /either --key or --psk/],
    [['server', '--provisioner-daemons', 'x'], /"x" is not a whole number/],
    [['templates', 'versions', 'promote'], /Missing flags --template, --template-version\. Usage: coder templates /],
    [['templates', 'versions', 'promote', '-t', 'a'], /Missing flag --template-version\./],
    [['templates', 'init', '--id', 'nope'], /Unknown example "nope"/],
  ];
  for (const [argv, message] of cases) {
    const { code, stderr } = await invoke(argv);
    assert.match(stderr, message, argv.join(' '));
    assert.match(stderr, /^error: .*\n$/);
    assert.equal(code, 1);
  }
});

test('prints the version with the name that init scripts expect', async () => {
  for (const argv of [['version'], ['--version']]) assert.match((await invoke(argv)).stdout, /^Coder v\d+\.\d+\.\d+/);
  assert.equal(typeof JSON.parse((await invoke(['version', '-o', 'json'])).stdout).version, 'string');
});

test('lists the examples and writes one', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cli-init-'));
  const first = await invoke(['templates', 'init', '--id', 'local', join(dir, 'mine')]);
  assert.equal(first.code, 0, first.stderr);
  assert.ok(existsSync(join(dir, 'mine/main.tf')));
  const again = await invoke(['templates', 'init', '--id', 'local', join(dir, 'mine')]);
  assert.match(again.stderr, /is not empty/);
  const list = await invoke(['templates', 'init', join(dir, 'other')]);
  assert.match(list.stdout, /^quickstart {2}/);
  assert.match(list.stderr, /Choose an example with --id/);
});

test('prints a completion script for each shell', async () => {
  for (const shell of ['bash', 'zsh', 'fish', 'powershell']) {
    const { stdout, code } = await invoke(['completion', '-p', '-s', shell]);
    assert.equal(code, 0);
    assert.match(stdout, /COMPLETION_MODE/);
  }
});

test('shows real usage', async () => {
  const memory = JSON.parse((await invoke(['stat', 'mem', '--host', '-o', 'json'])).stdout);
  assert.ok(memory.used > 1e6 && memory.used < memory.total);
  assert.match((await invoke(['stat', 'disk'])).stdout, /^[\d.]+\/[\d.]+ GiB \(\d+%\)\n$/);
  assert.match((await invoke(['stat', 'cpu', '--host'])).stdout, /^[\d.]+\/\d+ cores \(\d+%\)\n$/);
});

test('prints options instead of running the command, without secrets', async () => {
  const { stdout } = await invoke(['list', '--debug-options', '--token', 'topsecret', '--all']);
  assert.equal(JSON.parse(stdout).flags.all, true);
  assert.ok(!stdout.includes('topsecret'));
});
