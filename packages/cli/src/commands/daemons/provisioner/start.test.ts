import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { invoke } from '../../../testing/invoke.ts';
import { daemonLogger } from '../logging.ts';
import { splitSecrets } from './handover.ts';
import { daemonRegistry, serveMetrics } from './metrics.ts';
import { checkConcurrency, checkCredentials, daemonNames, daemonTags } from './options.ts';

const MAIN = join(import.meta.dirname, '../../../main.ts');
const KEY = 'k'.repeat(43);

test('rejects invalid options in one sentence', async () => {
  const wrong: [string[], RegExp][] = [
    [['--tag', 'zone'], /--tag "zone": write it as key=value/],
    [['--tag', '=eu'], /--tag "=eu": write it as key=value/],
    [['--key', 'short'], /Invalid --key .*: it has 5 characters, and provisioner keys have 43\./],
    [['--key', KEY, '--psk', 'secret'], /either --key or --psk, not both/],
    [['--key', KEY, '--tag', 'zone=eu'], /--tag .* cannot be used with --key/],
    [['--name', '-x'], /Invalid daemon name "-x": use 2 to 63 letters/],
    [['--name', 'a/b'], /Invalid daemon name "a\/b"/],
    [['--name', 'x'.repeat(63), '--concurrency', '2'], /Invalid daemon name "x+-0"/],
    [['--concurrency', '0'], /Invalid --concurrency 0: use a number from 1 to 100/],
    [['--concurrency', '2', '--once'], /--once cannot be used with --concurrency/],
    [['--log-filter', '('], /--log-filter "\(": Invalid regular expression/],
    [[], /Missing server URL\. Set --url/],
    [
      ['--url', 'ftp://127.0.0.1', '--psk', 'p'],
      /Invalid server URL "ftp:\/\/127\.0\.0\.1": it must begin with http:\/\/ or https:\/\/\./,
    ],
    [['--url', 'localhost:3000', '--psk', 'p'], /Invalid server URL "localhost:3000"/],
    [['--url', 'http://127.0.0.1:1'], /Missing credentials\. Set --key to a provisioner key, or log in/],
    [
      ['--url', 'http://127.0.0.1:1', '--psk', 'p', '--prometheus-enable', '--prometheus-address', 'here'],
      /"here": write it as host:port/,
    ],
  ];
  for (const [args, message] of wrong) {
    const name = args.includes('--name') ? [] : ['--name', 'fine'];
    const { code, stdout, stderr } = await invoke(['provisioner', 'start', ...name, ...args]);
    assert.equal(code, 1, args.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, /^error: [^\n]+\n$/);
    assert.match(stderr, message);
  }
  const fromEnv = await invoke(['provisioner', 'start'], {
    CODER_PROVISIONERD_TAGS: 'zone=eu,broken',
    CODER_PROVISIONER_DAEMON_NAME: 'fine',
  });
  assert.match(fromEnv.stderr, /--tag "broken"/);
});

test('sends the headers of --header and --header-command with the upgrade request', async (t) => {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((_request, answer) => answer.writeHead(404).end());
  server.on('upgrade', (request, socket) => {
    seen.push(request.headers);
    // a refusal that is final ends the daemon
    const body = '{"message":"Not you."}';
    socket.end(
      `HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const cache = mkdtempSync(join(tmpdir(), 'cache-'));
  t.after(() => rmSync(cache, { recursive: true, force: true }));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const line = ['--url', url, '--psk', 'p', '--name', 'fine', '--cache-dir', cache, '--header', 'X-One=1'];
  const { code, stderr } = await invoke(['provisioner', 'start', ...line], {
    PATH: process.env['PATH'],
    CODER_HEADER_COMMAND: 'echo "X-Two=a=b"',
  });
  assert.equal(code, 1);
  assert.match(stderr, /Not you/);
  assert.deepEqual([seen[0]?.['x-one'], seen[0]?.['x-two']], ['1', 'a=b']);
  const failed = await invoke(['provisioner', 'start', ...line, '--header-command', 'exit 3']);
  assert.match(failed.stderr, /^error: --header-command failed: [\s\S]*$/);
});

async function neverEndingDownload(t: TestContext) {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cache = mkdtempSync(join(tmpdir(), 'cache-'));
  t.after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(cache, { recursive: true, force: true });
  });
  return { server, cache, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test('ends at SIGTERM and SIGHUP while it downloads terraform', async (t) => {
  const { server, url, cache } = await neverEndingDownload(t);
  const download = `1.11.4=${url}/terraform.zip#sha256:${'0'.repeat(64)}`;
  const line = ['--url', url, '--psk', 'p', '--name', 'fine', '--cache-dir', cache, '--terraform-download', download];
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const) {
    const child = spawn(process.execPath, [MAIN, 'provisioner', 'start', ...line], {
      env: { PATH: process.env['PATH'], HOME: cache },
      stdio: 'ignore',
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    await once(server, 'request');
    child.kill(signal);
    // without a handler, the signal would end it instead, except as PID 1
    assert.deepEqual(await ended, [code, null]);
  }
});

test('warns that --org has no effect with a key', async () => {
  // a port that nothing can listen on ends it before anything is started
  const line = ['--url', 'http://127.0.0.1:1', '--name', 'fine', '--prometheus-enable', '--prometheus-address', 'here'];
  const start = (more: string[], env = {}) => invoke(['provisioner', 'start', ...line, ...more], env);
  const warning = /^Warning: .* has no effect: .*\.\nerror: [^\n]+\n$/;
  const byFlag = await start(['--key', KEY, '-O', 'other']);
  assert.match(byFlag.stderr, warning);
  assert.match(byFlag.stderr, /--org other/);
  const byVariable = await start(['--key', KEY], { CODER_ORGANIZATION: 'other' });
  assert.match(byVariable.stderr, warning);
  assert.match(byVariable.stderr, /CODER_ORGANIZATION/);
  for (const quiet of [await start(['--key', KEY]), await start(['--psk', 'p', '-O', 'other'])])
    assert.doesNotMatch(quiet.stderr, /Warning/);
});

test('checks names, tags and credentials', () => {
  assert.deepEqual(daemonNames('rack-1', 1), ['rack-1']);
  assert.deepEqual(daemonNames('rack', 3), ['rack-0', 'rack-1', 'rack-2']);
  assert.deepEqual(daemonNames('', 2)[1], `${hostname().split('.')[0]!.toLowerCase()}-1`);
  assert.throws(() => daemonNames('x'.repeat(64), 1), /Invalid daemon name/);
  assert.deepEqual(daemonTags(['a=b', 'c=d=e', 'empty=']), { a: 'b', c: 'd=e', empty: '' });
  assert.throws(() => daemonTags(['a=b\0']), /cannot contain a NUL character/);
  checkCredentials({ key: KEY, psk: '', tag: [] });
  checkCredentials({ key: '', psk: 'p', tag: ['a=b'] });
  checkConcurrency(1, true);
});

test('removes secrets from the command line in every notation', () => {
  const argv = ['provisioner', 'start', '--key', 'ONE', '--name', 'x', '--psk=TWO', '--header', 'a=THREE', '-v'];
  assert.deepEqual(splitSecrets([...argv, '--token=FOUR', '-t', 'key=value', '--psk']), {
    kept: ['provisioner', 'start', '--name', 'x', '-v', '-t', 'key=value'],
    values: ['ONE', 'TWO', 'a=THREE', 'FOUR', ''],
  });
});

test('hides secrets from /proc before anything else, by a second start where it cannot overwrite them', async (t) => {
  const { server, url, cache } = await neverEndingDownload(t);
  const secrets = ['sécret-psk', 'X-One=header-one', 'X-Two=header-two', 'secret-token'];
  const [psk, one, two, token] = secrets as [string, string, string, string];
  const line = [
    '--url',
    url,
    '--psk',
    psk,
    `--header=${one}`,
    '--header',
    two,
    '--header-command=',
    '--cache-dir',
    cache,
  ];
  line.push('--terraform-download', `1.11.4=${url}/terraform.zip#sha256:${'0'.repeat(64)}`, '--name', 'fine');
  // the second may not write to /proc/self/mem
  const files = ['--allow-fs-read=*', `--allow-fs-write=${cache}`];
  const limited = ['--permission', ...files, '--allow-child-process', '--allow-net'];
  for (const options of [[], limited]) {
    const env = {
      PATH: process.env['PATH'],
      HOME: cache,
      CODER_SESSION_TOKEN: token,
      OTHER: psk,
      EMPTY: '',
      TOKENS: 'shown',
    };
    const child = spawn(process.execPath, [...options, MAIN, 'provisioner', 'start', ...line], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'close');
    const errors = child.stderr.toArray();
    await Promise.race([once(server, 'request'), ended]);
    const shown = ['cmdline', 'environ'].map((name) => readFileSync(`/proc/${child.pid}/${name}`));
    const text = Buffer.concat(shown).toString();
    for (const secret of secrets) assert.ok(!text.includes(secret), `${secret} in ${JSON.stringify(text)}`);
    assert.match(text, /fine[\s\S]*PATH=[\s\S]*EMPTY=\0TOKENS=shown/);
    assert.equal(text.includes('--handover'), options === limited);
    child.kill();
    await ended;
    assert.doesNotMatch(Buffer.concat(await errors).toString(), /sécret|header-|secret-token/);
  }
});

test('writes logs as JSON and for Google Cloud, and filters debug lines', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'logs-'));
  const path = (name: string) => join(dir, name);
  const log = daemonLogger({
    human: path('human'),
    json: path('json'),
    stackdriver: path('cloud'),
    filter: ['^heart'],
    verbose: false,
  }).child({ daemon: 'one' });
  log.debug('heartbeat');
  log.debug('noise');
  log.warn('careful', { job: 7 });
  const lines = async (name: string) =>
    eventually(name, async () => {
      if (!existsSync(path(name))) return false;
      const found = readFileSync(path(name), 'utf8').trim().split('\n');
      return found.length === 2 && found;
    });
  assert.match((await lines('human'))[0]!, /\[debug\] heartbeat daemon=one$/);
  const [, line] = (await lines('cloud')).map((text) => JSON.parse(text) as Record<string, unknown>);
  assert.deepEqual([line!['severity'], line!['message'], line!['job']], ['WARNING', 'careful', 7]);
  assert.ok(!Number.isNaN(Date.parse(String(line!['timestamp']))));
  assert.equal(JSON.parse((await lines('json'))[1]!).msg, 'careful');
  rmSync(dir, { recursive: true });
});

test("serves metrics under upstream's names and rejects an address in use", async () => {
  const { metrics, text } = daemonRegistry(['one']);
  metrics.connected('one', true);
  metrics.jobStarted('workspace_build');
  metrics.jobStarted('template_import');
  metrics.jobEnded('workspace_build', 'failed', 2);
  metrics.stageEnded('Setting up', 0.2);
  const served = await serveMetrics('127.0.0.1:0', text);
  const answer = await fetch(`http://${served.address}/`);
  assert.match(answer.headers.get('content-type')!, /^text\/plain/);
  const body = await answer.text();
  assert.match(body, /^coderd_provisionerd_jobs_current\{provisioner="terraform"\} 1$/m);
  assert.match(body, /^coderd_provisionerd_job_timings_seconds_sum\{provisioner="terraform",status="failed"\} 2$/m);
  assert.match(body, /^coder_provisioner_connected\{name="one"\} 1$/m);
  assert.match(body, /^coder_provisioner_jobs_total\{type="workspace_build",status="failed"\} 1$/m);
  assert.match(body, /^coder_provisioner_stage_seconds_bucket\{le="0.25",stage="Setting up"\} 1$/m);
  await assert.rejects(serveMetrics(served.address, text), /Cannot serve metrics at .*EADDRINUSE/);
  served.close();
});
