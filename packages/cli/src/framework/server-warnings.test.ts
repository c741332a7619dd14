import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { VERSION } from '@ropewalk/kit/version';
import { invoke } from '../testing/invoke.ts';

const LICENSE = 'X-Coder-Entitlements-Warning';

/** A server of this version whose lists are all empty. */
async function serve(t: TestContext, version: string, more: { upgrade?: string; warnings?: string[] } = {}) {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`);
    res.setHeader('X-Coder-Build-Version', version);
    res.setHeader('Content-Type', 'application/json');
    if (more.warnings) res.setHeader(LICENSE, more.warnings);
    if (req.url === '/api/v2/buildinfo') res.end(JSON.stringify({ version, upgrade_message: more.upgrade }));
    else if (req.url!.includes('/users/me/workspace/')) res.writeHead(404).end('{"message":"Not there."}');
    else res.end('[]');
  });
  server.on('upgrade', (req, socket) => {
    asked.push(`UPGRADE ${req.url!.replace(/\?.*/, '')}`);
    const head = `X-Coder-Build-Version: ${version}\r\nContent-Type: application/json\r\nConnection: close\r\n`;
    socket.end(`HTTP/1.1 404 Not Found\r\n${head}\r\n{"message":"Not there."}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const env = { CODER_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, CODER_SESSION_TOKEN: 'x' };
  return { asked, run: (argv: string[], and = {}) => invoke(argv, { ...env, ...and }) };
}

const LIST = ['tokens', 'list', '-o', 'json'];
const WARNING = `Warning: this command has version ${VERSION} and the server has version v9.7.1. They may not work together.`;

test('warns once that the server has another version, with its upgrade message', async (t) => {
  const plain = await serve(t, 'v9.7.1');
  const { code, stdout, stderr } = await plain.run(LIST);
  assert.deepEqual([code, stdout.trim(), stderr], [0, '[]', `${WARNING}\n`]);
  assert.equal(plain.asked.filter((one) => one.endsWith('/buildinfo')).length, 1);
  assert.equal((await plain.run([...LIST, '--no-version-warning'])).stderr, '');
  assert.equal((await plain.run(LIST, { CODER_NO_VERSION_WARNING: 'true' })).stderr, '');

  const advised = await serve(t, 'v9.7.1', { upgrade: 'Download it from https://intranet.example.' });
  assert.equal((await advised.run(LIST)).stderr, `${WARNING} Download it from https://intranet.example.\n`);

  const stream = await advised.run(['ssh', 'dev']);
  assert.match(stream.stderr, new RegExp(`^${WARNING.replaceAll(/[.+]/g, '\\$&')}\nerror: Workspace "dev" not found`));
  assert.equal(
    advised.asked.filter((one) => one.endsWith('/buildinfo')).length,
    1,
    'coder ssh sends no further request',
  );
});

test('ignores different patch versions and development builds', async (t) => {
  const [, major, minor] = /^v(\d+)\.(\d+)\./.exec(VERSION)!;
  for (const version of [VERSION, `v${major}.${minor}.99`, 'v0.0.0-devel+abc', 'nonsense']) {
    const { asked, run } = await serve(t, version);
    assert.equal((await run(LIST)).stderr, '', version);
    assert.equal(asked.length, 1);
  }
});

test('shows the license warnings of the server unless a flag turns them off', async (t) => {
  const { run } = await serve(t, VERSION, { warnings: ['The license has ended, renew it.', 'Too many people.'] });
  assert.equal((await run(LIST)).stderr, 'The license has ended, renew it.\nToo many people.\n');
  assert.equal((await run([...LIST, '--no-feature-warning'])).stderr, '');
});
