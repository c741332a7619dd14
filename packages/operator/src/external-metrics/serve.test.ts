import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { createLogger } from '@ropewalk/kit';
import { type Certified, createCertificate } from '@ropewalk/kit/certificate';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { freePorts } from '@ropewalk/testkit/ports';
import { eventually } from '@ropewalk/testkit/wait';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { createKubeClient } from '../kube/client.ts';
import { API_SERVICES, type KubeObject, ROLE_BINDINGS, ROLES } from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import {
  type Cluster,
  installOperator,
  needsKubernetes,
  permitExternalMetrics,
  registerExternalMetrics,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';
import type { World } from '../world.ts';
import { serveExternalMetrics } from './serve.ts';

const ROOT = '/apis/external.metrics.k8s.io/v1beta1';
const API_SERVICE = 'v1beta1.external.metrics.k8s.io';
const NEEDED = 'coder_provisioner_needed_daemons';
const PENDING = 'coder_provisioner_pending_jobs';

let cluster: Cluster;
let server: TestServer | undefined;
let operator: Operator;
let namespace: string;
let port: number;
const warnings: string[] = [];
const log = createLogger({ level: 'warn', sinks: [{ format: 'human', write: (line) => warnings.push(line) }] });
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster({ forwards: true }), startTestServer()]);
  await installOperator(cluster);
  await permitExternalMetrics(cluster);
  namespace = await cluster.namespace();
  [port] = (await freePorts(1)) as [number];
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
  await create('berlin', { tags: { size: 'large' } }, { team: 'a' });
  await create('paris', { tags: { size: 'small' } }, { team: 'b' });
  operator = startOperator({
    connection: cluster.connection,
    pollMs: 50,
    log,
    externalMetrics: { host: '127.0.0.1', port },
  });
  await registerExternalMetrics(cluster, namespace, port);
});
after(async () => {
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

const create = (name: string, spec: object, labels: Record<string, string> = {}) =>
  cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name, labels },
    spec: {
      url: server!.url,
      image: 'i',
      replicas: 0,
      bootstrap: { credentialsSecretRef: { name: 'token' } },
      ...spec,
    },
  } as unknown as Provisioner);

interface Answer {
  ok: boolean;
  text: string;
}

/** `kubectl get --raw` */
function get(path: string, user = 'admin'): Promise<Answer> {
  const args = ['--kubeconfig', cluster.kubeconfig, '--context', user, 'get', '--raw', path];
  return new Promise((resolve) =>
    execFile(join(process.env['KUBERNETES']!, 'kubectl'), args, (err, stdout, stderr) =>
      resolve({ ok: err === null, text: err ? stderr : stdout }),
    ),
  );
}

async function values(metric: string, selector = ''): Promise<[provisioner: string, value: string][]> {
  const query = selector === '' ? '' : `?labelSelector=${encodeURIComponent(selector)}`;
  const { ok, text } = await get(`${ROOT}/namespaces/${namespace}/${metric}${query}`);
  assert.ok(ok, text);
  const { kind, items } = JSON.parse(text) as {
    kind: string;
    items: { metricName: string; metricLabels: Record<string, string>; value: string; timestamp: string }[];
  };
  assert.equal(kind, 'ExternalMetricValueList');
  for (const { metricName, timestamp } of items) {
    assert.equal(metricName, metric);
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000);
  }
  return items
    .map(({ metricLabels, value }): [string, string] => [metricLabels['coder.com/provisioner']!, value])
    .sort(([a], [b]) => a.localeCompare(b));
}

test('the API server lists the metrics', needsKubernetes, async () => {
  const { text } = await get(ROOT);
  const { resources } = JSON.parse(text) as { resources: { name: string; kind: string }[] };
  assert.deepEqual(
    resources.map(({ name }) => name),
    [NEEDED, PENDING],
  );
});

test('the values are those of the queue, for the selected provisioners', needsKubernetes, async () => {
  await eventually('both are known', async () => (await values(NEEDED)).length === 2);
  for (let count = 0; count < 2; count++) await pendingVersion(server!, { tags: { size: 'large' } });
  await eventually('both jobs count', async () => (await values(PENDING, 'team=a'))[0]?.[1] === '2');
  assert.deepEqual(await values(NEEDED), [
    ['berlin', '2'],
    ['paris', '0'],
  ]);
  assert.deepEqual(await values(NEEDED, 'coder.com/provisioner=paris'), [['paris', '0']]);
  assert.deepEqual(await values(NEEDED, 'team in (a,b),!other').then((found) => found.length), 2);
  assert.deepEqual(await values(NEEDED, 'team=c'), []);
});

test('a namespace without provisioners has no values', needsKubernetes, async () => {
  const { text } = await get(`${ROOT}/namespaces/default/${NEEDED}`);
  assert.deepEqual((JSON.parse(text) as { items: object[] }).items, []);
});

test('rejects an unknown metric, a malformed selector and an unknown path', needsKubernetes, async () => {
  assert.match((await get(`${ROOT}/namespaces/${namespace}/none`)).text, /NotFound.*no external metric "none"/);
  const malformed = await get(`${ROOT}/namespaces/${namespace}/${NEEDED}?labelSelector=a%3D%3D%3D`);
  assert.match(malformed.text, /BadRequest/);
  assert.match((await get(`${ROOT}/other`)).text, /NotFound/);
});

test('a person needs the right to list the metric, in this namespace', needsKubernetes, async () => {
  const path = `${ROOT}/namespaces/${namespace}/${NEEDED}`;
  assert.match((await get(path, 'operator')).text, /Forbidden/);
  await cluster.client.create<KubeObject & { rules: object[] }>(ROLES, {
    metadata: { namespace, name: 'metrics' },
    rules: [{ apiGroups: ['external.metrics.k8s.io'], resources: [NEEDED], verbs: ['list'] }],
  });
  await cluster.client.create<KubeObject & { roleRef: object; subjects: object[] }>(ROLE_BINDINGS, {
    metadata: { namespace, name: 'metrics' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'metrics' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'operator' }],
  });
  await eventually('the right counts', async () => (await get(path, 'operator')).ok);
  assert.match((await get(`${ROOT}/namespaces/default/${NEEDED}`, 'operator')).text, /Forbidden/);
});

const ADMIN = { 'X-Remote-User': 'admin', 'X-Remote-Group': 'system:masters' };

/** Asks the operator itself, without the API server. Returns the status, and the certificate that it presents. */
function exchange(options: RequestOptions): Promise<{ status: number; certificate: string }> {
  return new Promise((resolve, reject) => {
    const req = request({ host: '127.0.0.1', rejectUnauthorized: false, agent: false, ...options });
    req.once('response', (response) => {
      const { subject } = (response.socket as TLSSocket).getPeerCertificate();
      resolve({ status: response.resume().statusCode!, certificate: String(subject.CN) });
    });
    req.once('error', reject);
    req.end();
  });
}

async function ask(headers: Record<string, string>, client?: Certified): Promise<number> {
  const path = `${ROOT}/namespaces/${namespace}/${NEEDED}`;
  return (await exchange({ port, path, headers, ...client })).status;
}

test('trusts the names of the front proxy only, and what they may do', needsKubernetes, async () => {
  const named = { 'X-Remote-User': 'operator' };
  const { authority, client } = cluster.frontProxy!;
  const validMs = 86_400_000;
  const other = createCertificate({ name: 'front-proxy-ca', validMs }).authority;
  const statuses = {
    'no certificate': await ask(ADMIN),
    'its own certificate': await ask(ADMIN, createCertificate({ name: 'front-proxy-client', validMs })),
    'another authority': await ask(ADMIN, createCertificate({ name: 'front-proxy-client', validMs, issuer: other })),
    'another name': await ask(ADMIN, createCertificate({ name: 'someone', validMs, issuer: authority })),
    'an expired one': await ask(
      ADMIN,
      createCertificate({ name: 'front-proxy-client', validMs: -1, issuer: authority }),
    ),
    'no person': await ask({}, client),
    'a person without the right': await ask({ 'X-Remote-User': 'nobody' }, client),
    'a person with it': await ask(named, client),
    'an administrator': await ask(ADMIN, client),
  };
  assert.deepEqual(Object.values(statuses), [401, 401, 401, 401, 401, 401, 403, 200, 200], JSON.stringify(statuses));
});

test('leaves the certificate in an APIService of someone else alone', needsKubernetes, async () => {
  const { client } = cluster;
  const read = () => client.get<KubeObject & { spec: { caBundle: string } }>(API_SERVICES, '', API_SERVICE);
  const own = (await read()).spec.caBundle;
  const change = (inject: string | null) =>
    client.merge(
      API_SERVICES,
      { namespace: '', name: API_SERVICE },
      { metadata: { annotations: { 'coder.com/inject-ca': inject } }, spec: { caBundle: OTHER } },
    );
  const OTHER = Buffer.from(createCertificate({ name: 'other', validMs: 86_400_000 }).cert).toString('base64');
  await change(null);
  await eventually('it has seen that', () => warnings.some((line) => line.includes('left an APIService unchanged')));
  assert.equal((await read()).spec.caBundle, OTHER);
  await change('true');
  await eventually('it is its own again', async () => (await read()).spec.caBundle === own);
});

/** Certificates in files, as a kubelet mounts a Secret: the names are links into a folder, which is replaced by one rename. */
function mountedSecret(first: Certified) {
  const folder = mkdtempSync(join(tmpdir(), 'secret-'));
  let count = 0;
  const write = ({ cert, key }: Certified) => {
    const data = `..data-${++count}`;
    mkdirSync(join(folder, data));
    writeFileSync(join(folder, data, 'tls.crt'), cert);
    writeFileSync(join(folder, data, 'tls.key'), key);
    symlinkSync(data, join(folder, '..next'));
    renameSync(join(folder, '..next'), join(folder, '..data'));
  };
  write(first);
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(folder, name));
  const files = { cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') };
  return { files, write, remove: () => rmSync(folder, { recursive: true }) };
}

test('a renewed certificate is served without a restart, and a wrong one is not', needsKubernetes, async () => {
  const made = (name: string) => createCertificate({ name, validMs: 86_400_000 });
  const [first, second, third] = [made('first'), made('second'), made('third')];
  const secret = mountedSecret(first);
  const lines: string[] = [];
  const metrics = await serveExternalMetrics(
    { client: createKubeClient(cluster.connection) } as World,
    { host: '127.0.0.1', port: 0, files: secret.files, lookMs: 20 },
    createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] }),
  );
  const look = () => exchange({ port: metrics.port, path: ROOT, headers: ADMIN, ...cluster.frontProxy!.client });
  const serves = (certificate: string) =>
    eventually(`it serves the ${certificate} certificate`, async () => (await look()).certificate === certificate);
  try {
    await eventually('it knows the front proxy', async () => (await look()).status === 200);
    assert.equal((await look()).certificate, 'first');
    secret.write(second);
    await serves('second');
    secret.write({ cert: third.cert, key: second.key });
    await eventually('it rejects the pair', () => lines.some((line) => /keeping the last certificate/.test(line)));
    assert.deepEqual(await look(), { status: 200, certificate: 'second' });
    secret.write(third);
    await serves('third');
    assert.equal((await look()).status, 200);
    assert.ok(!lines.some((line) => line.includes('PRIVATE')));
  } finally {
    await metrics.close();
    secret.remove();
  }
});

test(
  'has no value if a server does not answer, because a lower sum would remove daemons',
  needsKubernetes,
  async () => {
    await server!.stop();
    server = undefined;
    await eventually('it says so', async () => {
      const { ok, text } = await get(`${ROOT}/namespaces/${namespace}/${NEEDED}`);
      return !ok && /ServiceUnavailable/.test(text);
    });
  },
);
