// Two operators in their own processes, of which the leader is killed while it reconciles. What it had begun is in every
// state: a write that was never made, and a write whose answer it did not receive.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { isNotFound } from '@ropewalk/operator/kube/client';
import { DEPLOYMENTS, JOBS, type KubeObject, LEASES, SECRETS } from '@ropewalk/operator/kube/types';
import {
  type Cluster,
  installOperator,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '@ropewalk/operator/testing/cluster';
import { type Fault, type FaultyProxy, startFaultyProxy } from '@ropewalk/operator/testing/faulty-proxy';
import { pendingVersion } from '@ropewalk/testkit';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from './harness.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

/** How long a lease lasts, and how often an operator renews it or looks whether it has expired. */
const LEASE_MS = 15_000;
const RETRY_MS = 2_000;
/** How much longer a takeover may take on a slow machine. */
const SLOW_MS = 10_000;
const BUILDS = 5;

let cluster: Cluster;
let server: TestServer;
let namespace: string;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster(), startTestServer()]);
  await installOperator(cluster);
  namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
});
after(async () => {
  await server?.stop();
  await cluster?.stop();
});

/** An operator whose requests to the API server can fail. */
async function operate(fault: Fault): Promise<OperatorProcess & { close(): void }> {
  const proxy: FaultyProxy = await startFaultyProxy(cluster.connection, fault);
  const kubeconfig = join(tmpdir(), `kubeconfig-${crypto.randomUUID()}`);
  const config = {
    clusters: [{ name: 'proxy', cluster: { server: proxy.connection.server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'none', user: {} }],
    contexts: [{ name: 'proxy', context: { cluster: 'proxy', user: 'none', namespace } }],
    'current-context': 'proxy',
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const args = ['--kubeconfig', kubeconfig, '--namespace', namespace, '--poll-interval', '200ms'];
  const operator = startOperatorProcess({ env: { PATH, NODE_COMPILE_CACHE } }, args);
  return {
    ...operator,
    close() {
      proxy.close();
      rmSync(kubeconfig);
    },
  };
}

const create = (name: string, changes: object = {}) =>
  cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name },
    spec: {
      url: server.url,
      image: 'i',
      replicas: 0,
      tags: { name },
      bootstrap: { credentialsSecretRef: { name: 'token' } },
      ...changes,
    },
  } as unknown as Provisioner);

const read = (name: string) => cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);
const settles = (name: string) =>
  eventually(`${name} settles`, async () => {
    const found = await read(name);
    return found.status?.phase === 'Ready' && found;
  });
const keys = async () =>
  (await server.api<{ id: string; name: string }[]>('GET', '/organizations/default/provisionerkeys')).body;
const leads = (operator: OperatorProcess) =>
  eventually('it leads', () => operator.log().includes('became the leader')).catch((err: Error) => {
    throw new Error(`${err.message}\n${operator.log()}`);
  });

interface Lease extends KubeObject {
  spec: { holderIdentity: string; acquireTime: string; renewTime: string };
}
const lease = async () => (await cluster.client.get<Lease>(LEASES, namespace, 'coder-operator')).spec;

test('another operator takes over from a killed leader, and does nothing twice', needsKubernetes, async (t) => {
  /** What the leader waits for, by the provisioner. */
  const stuck = new Set<string>();
  let deleting = false;
  let jobs = 0;
  const faults: [provisioner: string, 'hold' | 'lose', (request: string) => boolean][] = [
    ['keyed', 'hold', (request) => request.endsWith('PATCH secrets/keyed-provisioner-key')],
    ['stored', 'lose', (request) => request.endsWith('PATCH secrets/stored-provisioner-key')],
    ['deployed', 'lose', (request) => request.endsWith('PATCH deployments/deployed-provisioner')],
    ['built', 'lose', (request) => request.endsWith('POST jobs') && ++jobs === 3],
    ['leaving', 'hold', (request) => deleting && request.endsWith('PATCH coderprovisioners/leaving')],
  ];
  const first = await operate(({ method, url }) => {
    const request = `${method} ${new URL(url, 'http://proxy').pathname.split(`/${namespace}/`)[1]}`;
    const [name, fault] = faults.find(([, , matches]) => matches(request)) ?? [];
    if (!name) return 'pass';
    stuck.add(name);
    return fault!;
  });
  t.after(async () => {
    await first.kill();
    first.close();
  });
  await leads(first);
  let waits = false;
  const second = await operate(({ url }) => {
    waits ||= url.includes('/leases/');
    return 'pass';
  });
  t.after(async () => {
    await second.kill();
    second.close();
  });
  await eventually('the second one waits for the lease', () => waits);

  for (const name of ['done', 'leaving']) await create(name);
  const [done] = [await settles('done'), await settles('leaving')];
  for (let at = 0; at < BUILDS; at++) await pendingVersion(server, { tags: { name: 'built' } });
  for (const name of ['keyed', 'stored', 'deployed']) await create(name);
  await create('built', { replicas: undefined, autoscaling: { minReplicas: 0, maxReplicas: 20, mode: 'Job' } });
  deleting = true;
  await cluster.client.delete(PROVISIONERS, namespace, 'leaving');
  await eventually('the leader waits in all of them', () => stuck.size === faults.length).catch((err: Error) => {
    throw new Error(`${err.message}: only in ${[...stuck].join(', ')}\n${first.log()}`);
  });
  await first.kill();
  const before = await lease();
  const stored = (await keys()).find(({ name }) => name === 'stored')!.id;

  await leads(second);
  const now = await lease();
  assert.notEqual(now.holderIdentity, before.holderIdentity);
  const tookMs = Date.parse(now.acquireTime) - Date.parse(before.renewTime);
  t.diagnostic(`it led ${tookMs} ms after the last renewal`);
  assert.ok(tookMs >= LEASE_MS, 'two never lead at the same time');
  // the last renewal is seen, and its end noticed, at the next look
  assert.ok(tookMs <= LEASE_MS + 2 * RETRY_MS + SLOW_MS, `${tookMs} ms`);

  for (const name of ['keyed', 'stored', 'deployed']) await settles(name);
  await eventually('the other one is gone', () =>
    read('leaving').then(
      () => false,
      (err) => {
        if (isNotFound(err)) return true;
        throw err;
      },
    ),
  );
  await eventually('a pod for each build', async () => {
    const { status } = await read('built');
    return status?.autoscaling?.desiredReplicas === BUILDS;
  });
  const namesOf = ({ items }: { items: KubeObject[] }) => items.map(({ metadata }) => metadata.name).sort();
  assert.equal((await cluster.client.list(JOBS, { namespace })).items.length, BUILDS);
  const all = await keys();
  assert.deepEqual(all.map(({ name }) => name).sort(), ['built', 'deployed', 'done', 'keyed', 'stored']);
  assert.equal((await read('done')).status!.provisionerKeyID, done!.status!.provisionerKeyID);
  assert.equal((await read('stored')).status!.provisionerKeyID, stored);
  const managed = { namespace, labelSelector: 'app.kubernetes.io/managed-by=coder-operator' };
  const secrets = await cluster.client.list(SECRETS, managed);
  // without the garbage collector, the objects of the deleted provisioner stay
  assert.deepEqual(
    namesOf(secrets),
    ['built', 'deployed', 'done', 'keyed', 'leaving', 'stored'].map((name) => `${name}-provisioner-key`),
  );
  const deployments = await cluster.client.list(DEPLOYMENTS, { namespace });
  assert.deepEqual(
    namesOf(deployments),
    ['deployed', 'done', 'keyed', 'leaving', 'stored'].map((name) => `${name}-provisioner`),
  );
  assert.deepEqual(
    deployments.items.filter(({ metadata }) => metadata.generation !== 1),
    [],
    'none was changed',
  );
  assert.equal(await second.stop(), 0, second.log());
});
