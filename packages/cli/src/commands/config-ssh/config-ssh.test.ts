import assert from 'node:assert/strict';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { createTestTemplate, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';
import { unixPath } from './options.ts';

let server: TestServer;
let home: string;
let file: string;
before(async () => {
  server = await startTestServer({
    env: { CODER_SSH_CONFIG_OPTIONS: 'ForwardX11=yes,LogLevel INFO,LocalCommand=touch /tmp/x,Host=*' },
  });
});
after(() => server.stop());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'config-ssh-'));
  file = join(home, '.ssh/config');
  mkdirSync(join(home, '.ssh'));
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

const configSsh = (...args: string[]) =>
  invoke(['config-ssh', ...args], { HOME: home, CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });
async function good(...args: string[]) {
  const done = await configSsh('--yes', ...args);
  assert.equal(done.code, 0, done.stderr);
  return done;
}
const text = (path = file) => readFileSync(path, 'latin1');
const BLOCK = /# >>> coder config-ssh >>>[\s\S]*# <<< coder config-ssh <<<\r?\n/;

test('writes both kinds of hosts to a new file that only its owner can read', async () => {
  rmSync(join(home, '.ssh'), { recursive: true });
  const { stdout, stderr } = await good('--coder-binary-path', "/opt/it's 100%/coder", '--wait', 'yes');
  assert.match(stdout, /ssh coder\.<workspace>/);
  assert.equal(statSync(join(home, '.ssh')).mode & 0o777, 0o700);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const command = `'/opt/it'\\''s 100%%/coder' --global-config ${home}/config ssh --stdio --wait=yes`;
  const section = (pattern: string, flag: string) => `Host ${pattern}
\tForwardX11 yes
\tLogLevel INFO
\tConnectTimeout 0
\tStrictHostKeyChecking no
\tUserKnownHostsFile /dev/null
\tGlobalKnownHostsFile /dev/null
\tProxyCommand ${command} ${flag} '%h'
`;
  const prefixed = section('coder.*', '--ssh-host-prefix coder.');
  assert.ok(text().includes(prefixed + section('*.coder', '--hostname-suffix coder')), text());
  assert.match(stderr, /Ignoring .* "LocalCommand": it runs programs on this machine/);
  assert.match(stderr, /Ignoring .* "Host"/);
  assert.deepEqual(readdirSync(join(home, '.ssh')), ['config'], 'no temporary file is left');
});

test('keeps the rest of the file and its mode, and changes nothing in a second run', async () => {
  const around = 'Host a\r\n\tUser \xe4\xff\r\n';
  writeFileSync(file, around, 'latin1');
  chmodSync(file, 0o640);
  await good();
  assert.ok(text().startsWith(around));
  assert.doesNotMatch(text(), /[^\r]\n/, 'CRLF as in the rest');
  assert.equal(statSync(file).mode & 0o777, 0o640);
  writeFileSync(file, `${text()}# last \xfe`, 'latin1');
  const [once, { ino }] = [text(), statSync(file)];
  assert.match((await good()).stderr, /is up to date/);
  assert.equal(statSync(file).ino, ino);
  await good('--wait', 'no');
  assert.match(text(), /--wait=no/);
  assert.equal(text().replace(BLOCK, ''), once.replace(BLOCK, ''));
  await good('--remove');
  assert.equal(text(), `${around}# last \xfe`);
  assert.match((await good('--remove')).stderr, /has no hosts of coder config-ssh/);
});

test('adds a missing last newline', async () => {
  writeFileSync(file, 'Host a');
  await good();
  assert.ok(text().startsWith('Host a\n# >>>'));
});

test('follows symbolic links, also to a missing file', async () => {
  mkdirSync(join(home, 'dot'));
  symlinkSync('../dot/config', file);
  await good();
  assert.ok(lstatSync(file).isSymbolicLink());
  assert.match(text(join(home, 'dot/config')), BLOCK);
  rmSync(file);
  symlinkSync('config', file);
  assert.match((await configSsh('--yes')).stderr, /loop of symbolic links/);
});

test('changes nothing with --dry-run, and fails without a terminal', async () => {
  writeFileSync(file, 'Host a\n');
  const { code, stdout } = await configSsh('--dry-run');
  assert.equal(code, 0);
  assert.match(stdout, /^--- .*\n\+\+\+ .*\n@@ -1,1 \+1,\d+ @@\n Host a\n\+# >>> coder/);
  const asked = await configSsh();
  assert.equal(asked.code, 1);
  assert.match(asked.stderr, /\+# >>> coder[\s\S]*To answer yes, use --yes/);
  assert.equal(text(), 'Host a\n');
  await good();
  const change = (await configSsh('--dry-run', '-o', 'ForwardAgent=yes')).stdout;
  assert.match(change, /^\+\tForwardAgent yes$/m);
  assert.match((await configSsh('-n', '--remove')).stdout, /^ Host a\n(-.*\n)+$/m);
});

test("replaces and removes the block of upstream's command, and can keep its options", async () => {
  const published = [
    '# ------------START-CODER-----------',
    '# This section is managed by coder. DO NOT EDIT.',
    '# Last config-ssh options:',
    '# :wait=yes',
    '# :ssh-option=ForwardAgent=yes',
    '# :header-command=x',
    'Host coder.*',
    '\tProxyCommand /usr/bin/coder ssh --stdio --ssh-host-prefix coder. %h',
    '# ------------END-CODER------------',
    '',
  ].join('\n');
  const around = ['Host a\n', 'Host z\n'] as const;
  writeFileSync(file, around.join(published));
  await good();
  assert.equal(text().replace(BLOCK, '|'), 'Host a\n|Host z\n');
  assert.doesNotMatch(text(), /wait=yes/);
  const ours = BLOCK.exec(text())![0];

  writeFileSync(file, around.join(published));
  await good('--use-previous-options');
  assert.match(text(), /--wait=yes/);
  assert.match(text(), /ForwardAgent yes/);
  assert.doesNotMatch(text(), /CODER---|header-command=/);

  writeFileSync(file, `${published}Host m\n${ours}Host z\n`);
  await good();
  assert.equal(text().replace(BLOCK, '|'), '|Host m\nHost z\n');

  writeFileSync(file, `Host a\n${ours}Host m\n${published}Host z\n`);
  await good('--remove');
  assert.equal(text(), 'Host a\nHost m\nHost z\n');
  writeFileSync(file, around.join(published));
  await good('--remove');
  assert.equal(text(), 'Host a\nHost z\n');

  for (const broken of [
    published + published,
    published.split('\n').slice(1).join('\n'),
    ours.replace(/\n/, `\n${published}`),
  ]) {
    writeFileSync(file, broken);
    const { code, stderr } = await configSsh('--yes');
    assert.equal(code, 1);
    assert.match(stderr, /markers of .* do not match/);
    assert.equal(text(), broken);
  }
});

test('remembers options, keeps them on request, and asks about changes', async () => {
  await good('-o', 'ForwardAgent=yes', '-o', 'LogLevel debug', '--disable-autostart', '--hostname-suffix', '');
  const first = text();
  assert.match(first, /^\tForwardAgent yes\n\tLogLevel debug\n\tForwardX11 yes\n/m, 'own options come first');
  assert.match(first, /ssh --stdio --disable-autostart --ssh-host-prefix/);
  assert.doesNotMatch(first, /Host \*\.coder/);
  assert.match((await good('--use-previous-options')).stderr, /up to date/);
  const asked = await configSsh();
  assert.match(asked.stderr, /differ from those of the previous run.*--use-previous-options/);
  assert.equal(text(), first);
  await good('--use-previous-options', '-o', 'ForwardAgent=no');
  assert.match(text(), /ForwardAgent no/);
  assert.doesNotMatch(text(), /LogLevel debug/);
  assert.match(text(), /--disable-autostart/);
  await good();
  assert.doesNotMatch(text(), /ForwardAgent|autostart/);
});

test('writes one host for each workspace with --no-wildcard, and finds new ones when it runs again', async () => {
  const hosts = () => [...text().matchAll(/^Host (.*)$/gm)].map(([, host]) => host);
  assert.match((await good('--no-wildcard')).stdout, /^You have no workspaces/);
  assert.deepEqual(hosts(), []);
  const template = await createTestTemplate(server, 'machines');
  const create = (name: string) =>
    server.api('POST', '/users/me/workspaces', { body: { name, template_id: template.id } });
  await create('two');
  await create('one');
  assert.match((await good('--use-previous-options')).stdout, /ssh coder\.one$/m);
  assert.deepEqual(hosts(), ['coder.one', 'one.coder', 'coder.two', 'two.coder']);
  assert.match(text(), /^Host two\.coder\n(\t.*\n)+\tProxyCommand .* --hostname-suffix coder '%h'$/m);
  await good('--ssh-host-prefix', '');
  assert.deepEqual(hosts(), ['*.coder']);
});

test('writes paths of Windows with slashes only if asked to', () => {
  assert.equal(unixPath('C:\\bin\\coder.exe', 'win32'), 'C:/bin/coder.exe');
  assert.equal(unixPath('/opt/a\\b/coder', 'linux'), '/opt/a\\b/coder');
});

test('follows the answers of the user', async () => {
  const answer = (line: string, ...args: string[]) =>
    invoke(
      ['config-ssh', '--force-tty', ...args],
      { HOME: home, CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken },
      `${line}\n`,
    );
  assert.match((await answer('no', '-o', 'ForwardAgent=yes')).stderr, /Nothing was changed/);
  assert.deepEqual(readdirSync(join(home, '.ssh')), []);
  assert.equal((await answer('yes', '-o', 'ForwardAgent=yes')).code, 0);
  const first = text();
  assert.match(first, /ForwardAgent yes/);
  const kept = await answer('previous');
  assert.match(kept.stderr, /1\. new: none\n +2\. previous: --ssh-option=ForwardAgent=yes[\s\S]*up to date/);
  assert.equal(text(), first);
});

test('rejects invalid options before it writes', async () => {
  const cases: [string[], RegExp][] = [
    [['-o', 'Nonsense'], /write it as Key=value/],
    [['-o', 'Two Words=1\nHost *'], /must be one line/],
    [['-o', 'ProxyCommand=x'], /ProxyCommand cannot be set/],
    [['-o', 'host=*'], /host cannot be set/],
    [['-o', 'A-B=1'], /is not an SSH option/],
    [['-o', 'Key='], /the value is missing/],
    [['--ssh-host-prefix', 'a b'], /Invalid prefix of hosts/],
    [['--ssh-host-prefix', '*'], /Invalid prefix of hosts/],
    [['--hostname-suffix', '$(x)'], /Invalid suffix of hosts/],
    [['--ssh-host-prefix', '', '--hostname-suffix', ''], /need a prefix or a suffix/],
    [['--coder-binary-path', 'a\nb'], /An SSH configuration cannot contain/],
    [['--wait', 'maybe'], /not one of yes, no, auto/],
  ];
  for (const [args, message] of cases) {
    const { code, stderr } = await configSsh('--yes', ...args);
    assert.match(stderr, message);
    assert.equal(code, 1);
  }
  assert.deepEqual(readdirSync(join(home, '.ssh')), []);
});

test('leaves files with unmatched markers and read-only files unchanged', async () => {
  for (const bad of [
    '# >>> coder config-ssh >>>\nHost mine\n',
    '# <<< coder config-ssh <<<\n',
    '# <<< coder config-ssh <<<\n# >>> coder config-ssh >>>\n',
    '# >>> coder config-ssh >>>\n# >>> coder config-ssh >>>\n# <<< coder config-ssh <<<\n',
  ]) {
    writeFileSync(file, bad);
    for (const flag of ['--remove', '--wait=auto']) {
      assert.match((await configSsh('--yes', flag)).stderr, /do not match .see line 1/);
    }
    assert.equal(text(), bad);
  }
  rmSync(file);
  mkdirSync(file);
  assert.match((await configSsh('--yes')).stderr, /Could not read/);
  rmSync(file, { recursive: true });
  for (const path of ['/proc/none/config', join(home, 'none/none/config')]) {
    assert.match((await configSsh('--yes', '--ssh-config-file', path)).stderr, /Could not write .*It is unchanged/);
  }
});

test('warns of the same hosts before its block', async () => {
  writeFileSync(file, 'User me\n  host Coder.*\n\tUser other\n');
  assert.match((await good()).stderr, /line 2 of .* configures the same hosts/);
});
