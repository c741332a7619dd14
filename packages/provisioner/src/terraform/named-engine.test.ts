import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { silentLogger } from '@ropewalk/kit';
import { createCertificate } from '@ropewalk/kit/certificate';
import { zipSync } from 'fflate';
import { pruneDaemonCache } from '../daemon/prune-cache.ts';
import { findEngines } from './find-engines.ts';
import { type NamedEngine, namedEngine, parseNamedEngine } from './named-engine.ts';

const root = await mkdtemp(join(tmpdir(), 'engines-'));
after(() => rm(root, { recursive: true, force: true }));

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(root, 'cache-'));
});

const cacheDir = () => join(dir, 'tf');
const sum = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
const fill = () => Buffer.from(`# ${crypto.randomUUID()}\n`);

/** A program that reports a version, and leaves a file when it runs. */
const program = (version: string, engine = 'Terraform') =>
  Buffer.from(`#!/bin/sh
: >'${dir}/ran'
echo '${engine} v${version}'
${fill()}`);

async function listen(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Serves files by path, and counts the requests. */
async function mirror(t: TestContext, files: Record<string, Buffer | RequestListener>) {
  const requested: string[] = [];
  const server = createServer((req, res) => {
    requested.push(req.url!);
    const found = files[req.url!];
    if (typeof found === 'function') found(req, res);
    else res.writeHead(found ? 200 : 404).end(found);
  });
  const port = await listen(t, server);
  return { requested, url: (path: string) => `http://127.0.0.1:${port}${path}` };
}

const get = (named: NamedEngine, more: Partial<Parameters<typeof namedEngine>[1]> = {}) =>
  namedEngine(named, { cacheDir: cacheDir(), log: silentLogger, env: process.env, ...more });

test('downloads programs and archives once, and finds them in the cache later', async (t) => {
  const bare = program('1.11.4');
  const zip = Buffer.from(
    zipSync({ tofu: program('1.10.6', 'OpenTofu'), 'LICENSE.txt': fill(), 'more/terraform': fill() }),
  );
  const { requested, url } = await mirror(t, { '/bare': bare, '/tofu.zip': zip });
  const named: NamedEngine[] = [
    parseNamedEngine(`1.11.4=${url('/bare')}#sha256:${sum(bare).toUpperCase()}`),
    { version: '1.10.6', url: url('/tofu.zip'), sha256: sum(zip) },
  ];
  const install = { cacheDir: cacheDir(), log: silentLogger, env: process.env };
  const find = () => findEngines({ paths: [], named }, { env: process.env, log: silentLogger, install });
  const [first, second] = await Promise.all([find(), find()]);
  assert.deepEqual(first, second);
  assert.deepEqual(
    first.map(({ engine, version }) => `${engine} ${version}`),
    ['terraform 1.11.4', 'opentofu 1.10.6'],
  );
  assert.deepEqual(await find(), first);
  assert.deepEqual(requested.sort(), ['/bare', '/tofu.zip']);
  assert.deepEqual((await readdir(join(cacheDir(), 'engines'))).sort(), [sum(bare), sum(zip)].sort());
  for (const { path } of first) assert.equal((await stat(path)).mode & 0o777, 0o755);

  await writeFile(first[0]!.path, 'damaged');
  assert.deepEqual(await find(), first);
  assert.equal(requested.length, 3);
});

test('runs nothing and keeps nothing of a download with another checksum', async (t) => {
  const bare = program('1.11.4');
  const { url } = await mirror(t, { '/bare': bare });
  const wrong = sum(fill());
  await assert.rejects(get({ version: '1.11.4', url: url('/bare?token=canary'), sha256: wrong }), (err: Error) => {
    assert.match(err.message, /^Cannot use the engine 1\.11\.4: Could not download .*\/bare: status 404$/);
    return true;
  });
  await assert.rejects(get({ version: '1.11.4', url: url('/bare'), sha256: wrong }), (err: Error) => {
    assert.match(err.message, new RegExp(`^Cannot use the engine 1\\.11\\.4: .* is ${sum(bare)}, not ${wrong}\\.$`));
    return true;
  });
  assert.equal(existsSync(join(dir, 'ran')), false);
  assert.deepEqual(await readdir(join(cacheDir(), 'engines')), []);
});

test('says why an engine cannot be used', async (t) => {
  const files: Record<string, Buffer | RequestListener> = {
    '/text': fill(),
    '/other-version': program('1.11.3'),
    '/empty.zip': Buffer.from(zipSync({ 'terraform.txt': fill() })),
    '/two.zip': Buffer.from(zipSync({ terraform: fill(), tofu: fill() })),
    '/large': Buffer.alloc(2000, fill()),
    '/slow': (_, res) => void res.writeHead(200).write('x'),
    '/cut': (_, res) => void res.writeHead(200, { 'Content-Length': 10 }).write('x', () => res.destroy()),
  };
  const { url } = await mirror(t, files);
  const reasons: Record<string, RegExp> = {
    '/absent': /: Could not download .*\/absent: status 404$/,
    '/text': /\/text has no usable terraform or tofu program: the program does not answer/,
    '/other-version': /: The program of .*\/other-version reports version 1\.11\.3\.$/,
    '/empty.zip': /\/empty\.zip must contain one program terraform or tofu\.$/,
    '/two.zip': /\/two\.zip must contain one program/,
    '/large': /: it has more than 1000 bytes$/,
    '/slow': /: it takes more than 0\.3 seconds$/,
    '/cut': /: Could not download .*\/cut: terminated/,
  };
  for (const [path, reason] of Object.entries(reasons)) {
    const file = files[path];
    const sha256 = sum(Buffer.isBuffer(file) ? file : fill());
    const limits = path === '/slow' ? { timeoutMs: 300 } : { mostBytes: 1000 };
    await assert.rejects(get({ version: '1.11.4', url: url(path), sha256 }, { limits }), { message: reason }, path);
  }
  const nobody = createServer();
  const port = await listen(t, nobody);
  nobody.close();
  const refused = { version: '1.11.4', url: `http://127.0.0.1:${port}/x`, sha256: sum(fill()) };
  await assert.rejects(get(refused), /: fetch failed: .*ECONNREFUSED/);

  const canceled = new AbortController();
  const waiting = get({ version: '1.11.4', url: url('/slow'), sha256: sum(fill()) }, { signal: canceled.signal });
  canceled.abort(new Error('the daemon ends'));
  await assert.rejects(waiting, /^Error: the daemon ends$/);
  assert.deepEqual(await readdir(join(cacheDir(), 'engines')), []);
});

test('reads an engine from a text, and never repeats its URL in an error', () => {
  const sha256 = 'ab'.repeat(32);
  assert.deepEqual(parseNamedEngine(`1.11.4=https://mirror.example.com/a?b=c%2Cd#sha256:${sha256}`), {
    version: '1.11.4',
    url: 'https://mirror.example.com/a?b=c%2Cd',
    sha256,
  });
  const wrong: Record<string, RegExp> = {
    [`https://canary.example.com/x#sha256:${sha256}`]: /does not begin with a version and "="/,
    [`1.11=https://canary.example.com/x#sha256:${sha256}`]: /does not begin with a version/,
    [`1.0.11=https://canary.example.com/x#sha256:${sha256}`]: /versions before 1\.1\.0 do not work/,
    [`1.11.4=file:///canary#sha256:${sha256}`]: /not an http or https URL/,
    [`1.11.4=canary#sha256:${sha256}`]: /not an http or https URL/,
    [`1.11.4=https://me:canary@example.com/x#sha256:${sha256}`]: /has a user name or password/,
    '1.11.4=https://canary.example.com/x': /does not end with #sha256:/,
    [`1.11.4=https://canary.example.com/x#sha256:${sha256}00`]: /does not end with #sha256:/,
    [`1.11.4=https://canary.example.com/x#md5:${sha256}`]: /does not end with #sha256:/,
  };
  for (const [text, reason] of Object.entries(wrong))
    assert.throws(
      () => parseNamedEngine(text),
      ({ message }: Error) => {
        assert.match(message, reason);
        assert.doesNotMatch(message, /canary/);
        return true;
      },
    );
});

test('pruning keeps an engine that a living process uses', async (t) => {
  const files = { '/held': program('1.11.4'), '/left': program('1.9.8') };
  const { url } = await mirror(t, files);
  await get({ version: '1.11.4', url: url('/held'), sha256: sum(files['/held']) });
  // another process used this one, and has ended
  const use = `import { namedEngine } from ${JSON.stringify(join(import.meta.dirname, 'named-engine.ts'))};
    await namedEngine(${JSON.stringify({ version: '1.9.8', url: url('/left'), sha256: sum(files['/left']) })},
      { cacheDir: ${JSON.stringify(cacheDir())}, log: console, env: process.env });`;
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', use]);
  const [held, left] = [files['/held'], files['/left']].map((file) => join(cacheDir(), 'engines', sum(file)));
  const longAgo = new Date(Date.now() - 3 * 24 * 3600_000);
  for (const path of [held!, left!]) await utimes(path, longAgo, longAgo);
  const policy = { unusedMs: 2 * 24 * 3600_000 };
  assert.equal((await pruneDaemonCache(dir, { ...policy, dryRun: true })).engines, 1);
  assert.equal(existsSync(left!), true);
  const { engines, freed } = await pruneDaemonCache(dir, policy);
  assert.equal(engines, 1);
  assert.ok(freed > files['/left'].length, String(freed));
  assert.deepEqual([existsSync(held!), existsSync(left!)], [true, false]);
  assert.deepEqual(await pruneDaemonCache(dir, { mostBytes: 0 }).then(({ engines }) => engines), 0);
  assert.equal(existsSync(held!), true);
});

test('uses the proxy and the certificate authorities that the environment names', async (t) => {
  const bare = program('1.11.4');
  const serve: RequestListener = (_, res) => void res.end(bare);
  const certified = createCertificate({ name: 'mirror', hosts: ['localhost'], validMs: 3600_000 });
  const tlsPort = await listen(t, createTlsServer(certified, serve) as unknown as Server);
  const proxied: string[] = [];
  const proxyPort = await listen(
    t,
    createServer((req, res) => {
      proxied.push(req.url!);
      serve(req, res);
    }),
  );
  await writeFile(join(dir, 'ca.pem'), certified.cert);
  for (const url of [`https://localhost:${tlsPort}/a`, 'http://mirror.invalid/b']) {
    const use = `import { namedEngine } from ${JSON.stringify(join(import.meta.dirname, 'named-engine.ts'))};
      await namedEngine(${JSON.stringify({ version: '1.11.4', url, sha256: sum(bare) })},
        { cacheDir: ${JSON.stringify(join(dir, url.at(-1)!))}, log: console, env: process.env });`;
    const env = {
      ...process.env,
      NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'),
      NODE_USE_ENV_PROXY: '1',
      NO_PROXY: 'localhost',
      HTTP_PROXY: `http://127.0.0.1:${proxyPort}`,
    };
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', use], { env });
  }
  assert.deepEqual(proxied, ['http://mirror.invalid/b']);
});
