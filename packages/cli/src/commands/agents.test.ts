import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { WorkspaceAgent } from '@ropewalk/contract';
import {
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import type { Context } from '../framework/context.ts';
import { connectBound, waitForAgent } from '../lib/agent.ts';
import { invoke } from '../testing/invoke.ts';
import { parseEditorHost } from './open/vscodessh.ts';

const MAIN = join(import.meta.dirname, '../main.ts');
let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev', {
    agent: {
      apps: [{ slug: 'web', url: 'http://localhost:1' }],
      scripts: [
        { displayName: 'Startup', script: 'echo what went wrong; exit 9', runOnStart: true, startBlocksLogin: true },
      ],
      troubleshootingUrl: 'https://help.example/agent',
    },
  });
});
after(async () => {
  await dev.stop();
  await server.stop();
});
const env = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });

test('shows apps, ports and, with details, what is wrong', async (t) => {
  // a low one, because the command shows the first ports of the machine only
  const code = `let port = 1024;
    const server = require('net').createServer().on('error', () => server.listen(++port, '127.0.0.1'));
    server.listen(port, '127.0.0.1', () => console.log(port));`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const plain = await invoke(['show', 'dev'], env());
  assert.match(plain.stdout, /└─ main .*connected, start_error[\s\S]*\n {5}app web/);
  assert.ok(plain.stdout.includes(`port ${String(line).trim()}/tcp (`), plain.stdout);
  assert.doesNotMatch(plain.stdout, /what went wrong/);
  await eventually('the log is there', async () => {
    const { stdout } = await invoke(['show', 'dev', '--details'], env());
    return /app web.*: http:\/\/localhost:1[\s\S]*log:\n {7}what went wrong/.test(stdout);
  });
});

test('reads the host names of editors', () => {
  assert.deepEqual(parseEditorHost('coder-vscode--ann--dev--main'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(parseEditorHost('coder-vscode.example.com--ann--dev.main'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(parseEditorHost('coder-vscode--ann--dev'), { workspace: 'ann/dev', agent: '' });
  for (const host of ['dev', 'coder-vscode--ann', 'coder-vscode--ann----x', 'a--b--c--d--e'])
    assert.throws(() => parseEditorHost(host), /Invalid host/);
});

/** Starts OpenSSH as an editor's extension does, which keeps its files in the given folder. */
function startEditorSsh(dir: string, command: string): ChildProcessWithoutNullStreams {
  mkdirSync(dir);
  writeFileSync(join(dir, 'url'), `${server.url}\n`);
  writeFileSync(join(dir, 'token'), server.adminToken);
  const proxy = [process.execPath, MAIN, 'vscodessh'];
  proxy.push('--network-info-dir', join(dir, 'net'), '--network-info-interval', '100ms');
  for (const [flag, name] of [
    ['--log-dir', 'logs'],
    ['--session-token-file', 'token'],
    ['--url-file', 'url'],
  ] as const)
    proxy.push(flag, join(dir, name));
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', `ProxyCommand=${proxy.join(' ')} %h`];
  const args = ['-F', '/dev/null', ...options.flatMap((option) => ['-o', option]), 'coder-vscode--admin--dev--main'];
  return spawn('ssh', [...args, command], { env: { PATH: process.env['PATH'], HOME: dev.home } });
}

test("connects OpenSSH through vscodessh as an editor's extension does", async () => {
  const dir = join(dev.home, 'editor');
  const net = join(dir, 'net');
  const child = startEditorSsh(dir, 'echo here; cat');
  let errors = '';
  child.stderr.on('data', (part: Buffer) => {
    errors += part;
  });
  const [first] = (await once(child.stdout, 'data')) as [Buffer];
  assert.equal(String(first), 'here\n', errors);
  const file = join(net, `${child.pid}.json`);
  await eventually('what the editor shows', async () => existsSync(file));
  const info = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  assert.deepEqual(Object.keys(info).sort(), [
    'derp_latency',
    'download_bytes_sec',
    'latency',
    'p2p',
    'preferred_derp',
    'upload_bytes_sec',
    'using_coder_connect',
  ]);
  assert.equal(info['p2p'], false);
  assert.ok((info['latency'] as number) > 0);
  const [log] = readdirSync(join(dir, 'logs'));
  assert.match(log!, new RegExp(`^coder-ssh-.*-${child.pid}\\.log$`));
  const closed = once(child, 'close');
  child.stdin.end();
  assert.deepEqual(await closed, [0, null], errors);
  await eventually('the file is gone', async () => readdirSync(net).length === 0);
  const logged = () => readFileSync(join(dir, 'logs', log!), 'utf8');
  await eventually('the log is complete', async () => logged().includes(' ended '));
  assert.match(logged(), / dialing workspace=admin\/dev agent=main [^\n]+\n\S+ connected\n\S+ ended code=\d+\n$/);
  assert.ok(!logged().includes(server.adminToken));
});

test("ends the session in the workspace immediately when a signal ends an editor's connection", async () => {
  const dir = join(dev.home, 'closed-editor');
  const child = startEditorSsh(dir, 'echo $$; exec sleep 600');
  const [pid] = (await once(child.stdout, 'data')) as [Buffer];
  await eventually('what the editor shows', async () => existsSync(join(dir, 'net', `${child.pid}.json`)));
  const closed = once(child, 'close');
  child.kill('SIGHUP');
  await closed;
  await eventually('the session has ended', async () => !existsSync(`/proc/${Number(String(pid))}`));
  await eventually('the file is gone', async () => readdirSync(join(dir, 'net')).length === 0);
  const [log] = readdirSync(join(dir, 'logs'));
  await eventually('the log is complete', async () =>
    / ended code=129\n$/.test(readFileSync(join(dir, 'logs', log!), 'utf8')),
  );
});

test('gives up waiting for an agent, with the reason and a link', async () => {
  const agent = (more: Partial<WorkspaceAgent>) =>
    ({ status: 'connecting', connection_timeout_seconds: 120, ...more }) as WorkspaceAgent;
  assert.equal(connectBound(agent({})), 120_000);
  assert.equal(connectBound(agent({ connection_timeout_seconds: 5 })), 60_000);
  assert.equal(connectBound(agent({ connection_timeout_seconds: 0 })), 600_000);
  assert.equal(connectBound(agent({ status: 'disconnected' })), 120_000);

  const away = await startTestWorkspace(server, 'away', {
    agent: { troubleshootingUrl: 'https://help.example/agent' },
  });
  await away.stop();
  await eventually('it is away', async () => (await away.look()).status === 'disconnected');
  const said: string[] = [];
  const { createClient } = await import('@ropewalk/client');
  const { nodeFetch } = await import('@ropewalk/client/node-fetch');
  const client = createClient({ url: server.url, token: server.adminToken, fetch: nodeFetch });
  const ctx = {
    io: { stderr: { write: (text: string) => said.push(text) } },
    signal: new AbortController().signal,
  } as unknown as Context;
  await assert.rejects(
    waitForAgent(ctx, client, away.agentId, { forScripts: false, boundMs: 300 }),
    /The agent main of the workspace did not connect within 300ms: .+\. See https:\/\/help\.example\/agent$/,
  );
  assert.match(said.join(''), /The agent is not connected yet: .*help\.example/);
});
