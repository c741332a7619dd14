import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev', {
    agent: {
      apps: [
        { slug: 'web', url: 'http://localhost:1' },
        { slug: 'top', command: 'top' },
        { slug: 'out', url: 'https://example.com/?t=$SESSION_TOKEN', external: true },
        { slug: 'editor', url: 'cursor://coder.coder-remote/open?t=$SESSION_TOKEN', external: true },
      ],
    },
  });
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const env = (more: NodeJS.ProcessEnv = {}) => ({
  PATH: process.env['PATH'],
  HOME: dev.home,
  CODER_URL: server.url,
  CODER_SESSION_TOKEN: server.adminToken,
  ...more,
});
const run = (argv: string[], more: NodeJS.ProcessEnv = {}) =>
  invoke(['open', ...argv], env({ CODER_NO_OPEN: 'true', ...more }));
const linkOf = (stdout: string) => {
  const url = new URL(stdout.trim());
  return { ...Object.fromEntries(url.searchParams), start: `${url.protocol}//${url.host}${url.pathname}` };
};
const keys = async () => Number((await server.services.sql`SELECT count(*) AS n FROM api_keys`)[0]!['n']);

/** A browser that keeps what it was opened with, or fails. */
function browser(name: string, exitCode: number): { BROWSER: string; CODER_NO_OPEN: string } {
  const file = join(dev.home, name);
  writeFileSync(file, `#!/bin/sh\necho "$1" > ${file}.opened\nexit ${exitCode}\n`);
  chmodSync(file, 0o755);
  return { BROWSER: file, CODER_NO_OPEN: '' };
}

test('prints the link for the VS Code extension', async () => {
  const base = {
    agent: 'main',
    owner: 'admin',
    workspace: 'dev',
    url: server.url,
    start: 'vscode://coder.coder-remote/open',
  };
  const plain = await run(['vscode', 'dev']);
  assert.equal(plain.code, 0, plain.stderr);
  assert.deepEqual(linkOf(plain.stdout), { ...base, folder: dev.home });
  assert.deepEqual(linkOf((await run(['vscode', 'dev', 'src/x'])).stdout), { ...base, folder: `${dev.home}/src/x` });
  assert.deepEqual(linkOf((await run(['vscode', 'dev.main', '/etc/../opt'])).stdout), { ...base, folder: '/opt' });
  const { token } = linkOf((await run(['vscode', 'dev', '--generate-token'])).stdout) as { token?: string };
  assert.equal((await server.api('GET', '/users/me', { token: token! })).status, 200);
  const inside = await run(['vscode', 'dev', 'sub'], { CODER: 'true', CODER_WORKSPACE_NAME: 'dev', PWD: '/here' });
  assert.deepEqual(linkOf(inside.stdout), { ...base, folder: '/here/sub' });
});

test('opens the link with a token, and revokes an unused token', async () => {
  const opened = await run(['vscode', 'dev'], browser('good', 0));
  assert.match(opened.stderr, /Opened dev in Visual Studio Code/);
  const link = linkOf(readFileSync(join(dev.home, 'good.opened'), 'utf8')) as { token?: string };
  assert.equal((await server.api('GET', '/users/me', { token: link.token! })).status, 200);
  const before = await keys();
  const failed = await run(['vscode', 'dev'], browser('bad', 1));
  assert.equal(failed.code, 0);
  assert.match(failed.stderr, /Could not open the link/);
  assert.equal((linkOf(failed.stdout) as { token?: string }).token, undefined);
  assert.equal(await keys(), before);
});

test('prints the address of each kind of app', async () => {
  assert.equal((await run(['app', 'dev', 'web'])).stdout, `${server.url}/@admin/dev.main/apps/web/\n`);
  assert.equal((await run(['app', 'dev', 'top'])).stdout, `${server.url}/@admin/dev.main/terminal?app=top\n`);
  assert.equal((await run(['app', 'dev', 'editor'])).stdout, 'cursor://coder.coder-remote/open?t=$SESSION_TOKEN\n');
  await run(['app', 'dev', 'editor'], browser('editor', 0));
  const [, token] = /^cursor:\/\/coder\.coder-remote\/open\?t=(\w{10}-\w{22})\n$/.exec(
    readFileSync(join(dev.home, 'editor.opened'), 'utf8'),
  )!;
  assert.equal((await server.api('GET', '/users/me', { token: token! })).status, 200);
  // a site gets no token
  const before = await keys();
  assert.equal((await run(['app', 'dev', 'out'])).stdout, 'https://example.com/?t=\n');
  await run(['app', 'dev', 'out'], browser('external', 0));
  assert.equal(readFileSync(join(dev.home, 'external.opened'), 'utf8'), 'https://example.com/?t=\n');
  assert.equal(await keys(), before);
  const unknown = await run(['app', 'dev', 'none']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /App "none" not found in dev\. It has: .*web/);
  const listed = await run(['app', 'dev']);
  assert.deepEqual([listed.code, listed.stdout, listed.stderr], [0, '', 'Apps of dev: editor, out, top, web.\n']);
  assert.match(
    (await run(['app', 'dev', 'web', '--region', 'mars'])).stderr,
    /Unknown region "mars"\. Available: primary/,
  );
});

test('reports the connection to the server with netcheck', async () => {
  const { code, stdout } = await invoke(['netcheck'], env());
  assert.equal(code, 0);
  const { healthy, websocket } = JSON.parse(stdout) as { healthy: boolean; websocket: { works: boolean } };
  assert.ok(healthy && websocket.works, stdout);
  const { regions } = JSON.parse(stdout) as { regions: { name: string; latency_ms: number; usable: boolean }[] };
  assert.deepEqual(
    regions.map(({ name, usable }) => [name, usable]),
    [['primary', true]],
  );
  assert.ok(regions[0]!.latency_ms > 0, stdout);
  // the parts that editors read from upstream's report
  const { derp, interfaces } = JSON.parse(stdout) as {
    derp: { healthy: boolean; severity: string; warnings: []; regions: object };
    interfaces: { severity: string; interfaces: { name: string; mtu: number; addresses: string[] }[] };
  };
  assert.deepEqual([derp.healthy, derp.severity, derp.warnings, derp.regions], [true, 'ok', [], {}]);
  const loopback = interfaces.interfaces.find(({ addresses }) => addresses.includes('127.0.0.1/8'));
  assert.ok(loopback && loopback.mtu >= 0, stdout);
});
