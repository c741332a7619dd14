import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { kubeconfigConnection } from './connection.ts';
import { readKubeconfig } from './kubeconfig.ts';

const dir = mkdtempSync(join(tmpdir(), 'kubeconfig-'));
after(() => rmSync(dir, { recursive: true }));
const base64 = (text: string) => Buffer.from(text).toString('base64');
const SERVER = 'https://cluster.example:6443/';

/** A file with one context, whose user and cluster have these fields. */
function fileWith(user: object | null, cluster: object = {}, more: object = {}): string {
  const file = join(dir, 'config');
  const config = {
    clusters: [{ name: 'c', cluster: { server: SERVER, ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace: 'team' } }],
    'current-context': 'x',
    ...more,
  };
  writeFileSync(file, stringify(config));
  return file;
}
const optionsOf = (user: object, cluster?: object) => readKubeconfig(fileWith(user, cluster), '').options();
const texts = (options: object) =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, value instanceof Uint8Array ? String(value) : value]),
  );

test('connects with a token, to the server and namespace of the context', async () => {
  const file = fileWith({ token: 't' });
  const { server, namespace, options } = await kubeconfigConnection(file);
  assert.deepEqual([server, namespace], ['https://cluster.example:6443', 'team']);
  const { headers, agent } = await options();
  assert.deepEqual(headers, { Authorization: 'Bearer t' });
  assert.ok(agent);
  const plain = { contexts: [{ name: 'y', context: { cluster: 'c' } }] };
  const other = readKubeconfig(fileWith(null, {}, plain), 'y');
  assert.equal(other.namespace, 'default');
  assert.deepEqual(await other.options(), { headers: {} });
});

test('takes certificates from the file itself, or from files that its paths name', async () => {
  mkdirSync(join(dir, 'pki'));
  writeFileSync(join(dir, 'pki/ca.crt'), 'ca');
  writeFileSync(join(dir, 'client.key'), 'key');
  const user = { 'client-certificate-data': base64('cert'), 'client-key': 'client.key' };
  const cluster = { 'certificate-authority': 'pki/ca.crt', 'tls-server-name': 'kubernetes' };
  assert.deepEqual(texts(await optionsOf(user, cluster)), {
    ca: 'ca',
    cert: 'cert',
    key: 'key',
    servername: 'kubernetes',
    headers: {},
  });
  assert.equal((await optionsOf({}, { 'insecure-skip-tls-verify': true })).rejectUnauthorized, false);
});

test('reads the file of a token for each request, and signs in with a password or as another user', async () => {
  writeFileSync(join(dir, 'token'), 'one\n');
  const { options } = readKubeconfig(fileWith({ tokenFile: 'token', token: 'old' }), '');
  assert.deepEqual((await options()).headers, { Authorization: 'Bearer one' });
  writeFileSync(join(dir, 'token'), 'two\n');
  assert.deepEqual((await options()).headers, { Authorization: 'Bearer two' });
  assert.equal((await optionsOf({ username: 'ada', password: 'p:w' })).auth, 'ada:p:w');
  assert.deepEqual((await optionsOf({ as: 'bob', 'as-uid': '7', 'as-groups': ['a', 'b'] })).headers, {
    'Impersonate-User': 'bob',
    'Impersonate-Uid': '7',
    'Impersonate-Group': ['a', 'b'],
  });
});

test('runs an exec plugin until its credential expires', async () => {
  const plugin = join(dir, 'plugin.mjs');
  const runs = join(dir, 'runs');
  writeFileSync(
    plugin,
    `import { appendFileSync, readFileSync } from 'node:fs';
    appendFileSync(${JSON.stringify(runs)}, process.env.KUBERNETES_EXEC_INFO + '\\n');
    const run = readFileSync(${JSON.stringify(runs)}, 'utf8').split('\\n').length - 1;
    const expirationTimestamp = run === 1 ? '2020-01-01T00:00:00Z' : '2100-01-01T00:00:00Z';
    const status = { token: process.env.PREFIX + run + (process.env.CODER_SECRET ?? ''), clientCertificateData: 'cert', clientKeyData: 'key', expirationTimestamp };
    console.log(JSON.stringify({ kind: 'ExecCredential', status }));`,
  );
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: process.execPath,
    args: [plugin],
    env: [{ name: 'PREFIX', value: 'run-' }],
    provideClusterInfo: true,
  };
  process.env['CODER_SECRET'] = 'secret';
  after(() => delete process.env['CODER_SECRET']);
  const { options } = readKubeconfig(fileWith({ exec }), '');
  const token = async () => (await options()).headers;
  assert.deepEqual(await token(), { Authorization: 'Bearer run-1' });
  const both = await Promise.all([token(), token()]);
  assert.deepEqual(both, [{ Authorization: 'Bearer run-2' }, { Authorization: 'Bearer run-2' }]);
  const { cert, key } = await options();
  assert.deepEqual([cert, key], ['cert', 'key']);
  const [info] = readFileSync(runs, 'utf8').trim().split('\n');
  assert.deepEqual(JSON.parse(info!), {
    apiVersion: exec.apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: false, cluster: { server: SERVER } },
  });
  assert.equal(readFileSync(runs, 'utf8').trim().split('\n').length, 2);
});

test('says why an exec plugin gave no credential, and runs it again', async () => {
  const script = join(dir, 'fails.mjs');
  const exec = { apiVersion: 'v1', command: process.execPath, args: [script], installHint: 'Install it.' };
  const { options } = readKubeconfig(fileWith({ exec }), '');
  writeFileSync(script, 'console.error("sign in first"); process.exit(3)');
  await assert.rejects(options(), {
    code: 'unavailable',
    message: /The exec plugin ".*" failed: .*sign in first.*Install it\./s,
  });
  writeFileSync(script, 'console.log("{}")');
  await assert.rejects(options(), { code: 'unavailable' });
  writeFileSync(script, 'console.log(JSON.stringify({ status: { token: "t" } }))');
  assert.deepEqual((await options()).headers, { Authorization: 'Bearer t' });
  const missing = readKubeconfig(fileWith({ exec: { ...exec, command: './absent' } }), '');
  await assert.rejects(missing.options(), { message: /"\.\/absent" failed: .*ENOENT/ });
});

test('rejects files that it cannot use, and says why', () => {
  const reject = (file: string, context: string, message: RegExp) =>
    assert.throws(() => readKubeconfig(file, context), { code: 'invalid', message });
  reject(join(dir, 'absent'), '', /Cannot read the kubeconfig ".*absent": ENOENT/);
  reject(fileWith({}), 'z', /has no context "z"\. Choose a context with --context\./);
  reject(fileWith({}, {}, { 'current-context': '' }), '', /has no current context/);
  reject(fileWith({}, {}, { clusters: [] }), '', /has no cluster "c"/);
  reject(fileWith({}, {}, { users: [] }), '', /it has no user "u"/);
  reject(fileWith({}, { server: 'cluster' }), '', /\/clusters\/0\/cluster\/server/);
  reject(fileWith({ 'auth-provider': { name: 'oidc' } }), '', /auth-provider of user "u" is not supported/);
  const broken = join(dir, 'broken');
  writeFileSync(broken, '{ clusters: [');
  reject(broken, '', /Cannot read the kubeconfig/);
});
