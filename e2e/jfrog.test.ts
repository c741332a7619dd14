import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import { makeZip } from '@ropewalk/server/app/evaluate/zip';
import { Browser } from '@ropewalk/testkit/identity-provider';
import { OAUTH_CLIENT, type OAuthServer, startOAuthServer } from '@ropewalk/testkit/oauth-server';
import {
  buildEnds,
  coder,
  createWorkspace,
  ensureExecutable,
  firstUser,
  makeTemplate,
  PERSON,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
} from './harness.ts';
import { localExample } from './local.ts';

// A stand-in for Artifactory: a repository of each kind with one package, at the addresses that JFrog documents. It
// rejects requests that do not have the token of the person. The OAuth server issues the tokens.

const USER = PERSON.username;
let dir: string;
let oauth: OAuthServer;
let artifactory: Server;
let host: string;
let server: ServerProcess;
/** The paths that it answered. */
const served = new Set<string>();

const file = (path: string, text: string) => ({ path, data: Buffer.from(text), mode: 0o644 });
const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
const tarball = gzipSync(
  await writeTar([file('package/package.json', JSON.stringify({ name: 'hello', version: '1.2.3' }))]),
);
const wheel = makeZip([
  file('hello.py', 'print("hello")\n'),
  file('hello-1.2.3.dist-info/METADATA', 'Metadata-Version: 2.1\nName: hello\nVersion: 1.2.3\n'),
  file(
    'hello-1.2.3.dist-info/WHEEL',
    'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
  ),
  file('hello-1.2.3.dist-info/RECORD', ''),
]);
const goMod = 'module example.com/hello\n';
const goZip = makeZip([file('example.com/hello@v1.2.3/go.mod', goMod)]);

/** The answers by path, for requests with the token. */
function contents(): Record<string, [type: string, body: string | Uint8Array]> {
  const npm = `https://${host}/artifactory/api/npm/npm/hello/-/hello-1.2.3.tgz`;
  const version = { name: 'hello', version: '1.2.3', dist: { tarball: npm } };
  const go = '/artifactory/api/go/go/example.com/hello/@v';
  const json = 'application/json';
  return {
    '/artifactory/api/npm/npm/hello': [
      json,
      JSON.stringify({ name: 'hello', 'dist-tags': { latest: '1.2.3' }, versions: { '1.2.3': version } }),
    ],
    [new URL(npm).pathname]: ['application/octet-stream', tarball],
    '/artifactory/api/pypi/pypi/simple/hello/': [
      'text/html',
      `<a href="../../packages/hello-1.2.3-py3-none-any.whl#sha256=${sha256(wheel)}">hello-1.2.3-py3-none-any.whl</a>`,
    ],
    '/artifactory/api/pypi/pypi/packages/hello-1.2.3-py3-none-any.whl': ['application/octet-stream', wheel],
    '/v2/': [json, '{}'],
    '/v2/docker/hello/manifests/latest': [MANIFEST_TYPE, MANIFEST],
    [`/v2/docker/hello/blobs/${IMAGE_DIGEST}`]: ['application/octet-stream', IMAGE],
    [`${go}/list`]: ['text/plain', 'v1.2.3\n'],
    [`${go}/v1.2.3.info`]: [json, JSON.stringify({ Version: 'v1.2.3' })],
    [`${go}/v1.2.3.mod`]: ['text/plain', goMod],
    [`${go}/v1.2.3.zip`]: ['application/zip', goZip],
  };
}

const DOCKER_TOKEN = '/artifactory/api/docker/docker/v2/token';
const IMAGE = JSON.stringify({ architecture: 'amd64', os: 'linux', rootfs: { type: 'layers', diff_ids: [] } });
const IMAGE_DIGEST = `sha256:${sha256(Buffer.from(IMAGE))}`;
const MANIFEST_TYPE = 'application/vnd.docker.distribution.manifest.v2+json';
const MANIFEST = JSON.stringify({
  schemaVersion: 2,
  mediaType: MANIFEST_TYPE,
  config: { mediaType: 'application/vnd.docker.container.image.v1+json', size: IMAGE.length, digest: IMAGE_DIGEST },
  layers: [],
});

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { pathname } = new URL(request.url!, `https://${host}`);
  const [kind, secret = ''] = (request.headers.authorization ?? '').split(' ');
  const [name, password] = Buffer.from(secret, 'base64').toString().split(':');
  const isBasic = kind === 'Basic' && name === USER && oauth.tokens.has(password!);
  const isDocker = pathname.startsWith('/v2/');
  const isAllowed = isDocker
    ? kind === 'Bearer' && oauth.tokens.has(secret.replace(/^docker-/, ''))
    : isBasic || (kind === 'Bearer' && oauth.tokens.has(secret));
  if (!isAllowed) {
    const docker = `Bearer realm="https://${host}${DOCKER_TOKEN}",service="${host}"`;
    response.writeHead(401, { 'www-authenticate': isDocker ? docker : 'Basic realm="Artifactory"' }).end();
    return;
  }
  const found =
    pathname === DOCKER_TOKEN ? ['application/json', `{"token":"docker-${password}"}`] : contents()[pathname];
  if (!found) {
    response.writeHead(404).end();
    return;
  }
  served.add(pathname);
  response.writeHead(200, { 'content-type': found[0] as string }).end(found[1]);
}

const guide = readFileSync(join(dirname(import.meta.dirname), 'docs/guides/jfrog.md'), 'utf8');
/** The guide's addition to a template, with the stand-in's address. */
const addition = () => /```hcl\n([\s\S]*?)```/.exec(guide)![1]!.replace('https://jfrog.example.com', `https://${host}`);

/** Connects the account at Artifactory, as its owner does in a browser. */
async function connectAccount(): Promise<void> {
  const browser = new Browser();
  browser.cookies.set(new URL(server.url).host, new Map([['coder_session_token', server.token]]));
  const page = `${server.url}/external-auth/jfrog`;
  assert.equal(await browser.open(`${page}/callback`, (url) => url === page), page);
}

/** Runs a script in the workspace. */
async function inWorkspace(script: string): Promise<string> {
  const env = signedInEnv(server);
  const done = await coder(['ssh', 'dev', '--', 'sh', '-ec', `'${script}'`], { env });
  assert.equal(done.code, 0, done.stdout + done.stderr);
  return done.stdout;
}

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'platform-jfrog-'));
  // workspaces have their own user, and read the certificate
  chmodSync(dir, 0o711);
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const names = ['-subj', '/CN=Artifactory', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', '-x509', ...made, ...names, '-days', '2'], { stdio: ['ignore', 'ignore', 'pipe'] });
  artifactory = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, answer);
  artifactory.listen(0, '127.0.0.1');
  await once(artifactory, 'listening');
  host = `127.0.0.1:${(artifactory.address() as AddressInfo).port}`;
  [oauth] = await Promise.all([startOAuthServer(), ensureExecutable()]);
  server = await startCoderServer({
    env: {
      CODER_EXTERNAL_AUTH_0_ID: 'jfrog',
      CODER_EXTERNAL_AUTH_0_TYPE: 'jfrog',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: OAUTH_CLIENT.id,
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: OAUTH_CLIENT.secret,
      CODER_EXTERNAL_AUTH_0_AUTH_URL: `${oauth.url}/ui/authorization`,
    },
  });
  await firstUser(server);
  await connectAccount();

  const trust = ['SSL_CERT_FILE', 'PIP_CERT', 'NODE_EXTRA_CA_CERTS'].map((name) => `${name}=${cert}`).join(' ');
  const main = localExample()['main.tf']!.replace('env -i ', `env -i ${trust} `);
  const template = await makeTemplate(server, 'packages', { 'main.tf': `${main}\n${addition()}` });
  const { latest_build: build } = await createWorkspace(server, template, 'dev');
  const ended = await buildEnds(server, build.id);
  assert.equal(ended.job.status, 'succeeded', ended.job.error ?? '');
});
after(async () => {
  await server?.stop();
  await oauth?.stop();
  artifactory?.closeAllConnections();
  artifactory?.close();
  rmSync(dir, { recursive: true, force: true });
});

const needs = (program: string, ...args: string[]) => ({
  skip: spawnSync(program, args).status === 0 ? false : `${program} is not installed`,
  timeout: 120_000,
});

test('npm downloads with the account of the owner', needs('npm', '--version'), async () => {
  assert.match(await inWorkspace('mkdir -p a && cd a && npm install hello && npm ls'), /hello@1\.2\.3/);
});

test('pip downloads with the account of the owner', needs('pip', '--version'), async () => {
  assert.match(await inWorkspace('pip download --no-deps -d b hello && ls b'), /hello-1\.2\.3-py3-none-any\.whl/);
});

test('Go downloads with the account of the owner', needs('go', 'version'), async () => {
  const script = 'go mod download -json example.com/hello@latest; chmod -R u+w go';
  assert.match(await inWorkspace(`GONOSUMDB=example.com GOFLAGS=-mod=mod ${script}`), /"Version": "v1\.2\.3"/);
});

test('Docker exchanges the token of the owner', needs('docker', '--version'), async () => {
  assert.match(await inWorkspace(`docker manifest inspect ${host}/docker/hello:latest`), /"schemaVersion": 2/);
  assert.ok(served.has(DOCKER_TOKEN));
});

test('the next start replaces a revoked token, and keeps what else is in the files', { timeout: 120_000 }, async () => {
  await inWorkspace('echo "machine other login me password secret" >> .netrc; echo "color=false" >> .npmrc');
  const old = [...oauth.tokens][0]!;
  oauth.tokens.clear();
  await connectAccount();
  const env = signedInEnv(server);
  const restarted = await coder(['restart', 'dev', '-y'], { env });
  assert.equal(restarted.code, 0, restarted.stdout + restarted.stderr);
  const lines = (await inWorkspace('cat .netrc .npmrc')).trim().split('\n');
  const [token] = oauth.tokens;
  const npm = `//${host}/artifactory/api/npm/npm/:_authToken=`;
  assert.deepEqual(lines.map((line) => line.replace(token!, 'NEW').replace(old, 'OLD')).sort(), [
    `${npm}NEW`,
    'color=false',
    `machine 127.0.0.1 login ${USER} password NEW`,
    `machine ${host} login ${USER} password NEW`,
    'machine other login me password secret',
    `registry=https://${host}/artifactory/api/npm/npm/`,
  ]);
});
