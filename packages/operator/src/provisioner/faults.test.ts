import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@platform/kit';
import { startTestServer, type TestServer } from '@platform/testkit/server';
import { eventually } from '@platform/testkit/wait';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import type { Connection } from '../kube/connection.ts';
import type { Secret } from '../kube/objects.ts';
import { DEPLOYMENTS, type KubeObject, LEASES, ROLES, SECRETS } from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import { type Cluster, installOperator, needsKubernetes, startCluster } from '../testing/cluster.ts';
import { type Fault, startFaultyProxy } from '../testing/faulty-proxy.ts';

let cluster: Cluster;
let server: TestServer;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster(), startTestServer()]);
  await installOperator(cluster);
});
after(async () => {
  await server?.stop();
  await cluster?.stop();
});

/** An operator with its own lease, so that each test has its leader at once. */
async function operate(connection: Connection = cluster.connection): Promise<Operator & { namespace: string }> {
  const namespace = await cluster.namespace();
  const operator = startOperator({
    connection: { ...connection, namespace },
    watchNamespace: namespace,
    pollMs: 100,
    log: silentLogger,
  });
  await cluster.client.create<Secret>(SECRETS, {
    metadata: { namespace, name: 'token' },
    data: { token: Buffer.from(server.adminToken).toString('base64') },
  });
  return { ...operator, namespace };
}

async function create(namespace: string, name: string): Promise<void> {
  const spec = { url: server.url, image: 'i', replicas: 0, bootstrap: { credentialsSecretRef: { name: 'token' } } };
  await cluster.client.create(PROVISIONERS, { metadata: { namespace, name }, spec } as Provisioner);
}

async function settles(namespace: string, name: string): Promise<Provisioner> {
  const found = await eventually(`${name} settles`, async () => {
    const provisioner = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);
    return provisioner.status?.phase === 'Ready' && provisioner;
  });
  await cluster.client.get(SECRETS, namespace, `${name}-provisioner-key`);
  await cluster.client.get(DEPLOYMENTS, namespace, `${name}-provisioner`);
  await cluster.client.get(ROLES, namespace, `${name}-workspaces`);
  return found;
}

const keysNamed = async (name: string) => {
  const { body } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  return body.filter((key) => key.name.startsWith(name)).length;
};

/** A part of the requests, in no pattern that a sequence of requests could fall in step with. */
const some = (count: number, part: number) => ((count * 2_654_435_761) >>> 8) % 100 < part;
const FAULTS: Record<string, Fault> = {
  'too many requests': ({ count }) => (some(count, 30) ? 429 : 'pass'),
  'conflicts of writes': ({ count, method }) => (method !== 'GET' && some(count, 50) ? 409 : 'pass'),
  'an API server that is unavailable': ({ count }) => (some(count, 50) ? 503 : 'pass'),
  'broken connections': ({ count }) => (some(count, 25) ? 'cut' : 'pass'),
  'expired watches': ({ count, url }) => (url.includes('watch=true') && some(count, 50) ? 410 : 'pass'),
};
for (const [what, fault] of Object.entries(FAULTS)) {
  test(`reconciles through ${what}`, needsKubernetes, async (t) => {
    const proxy = await startFaultyProxy(cluster.connection, (request) =>
      // an election waits two seconds after a failure, and has a test of its own
      request.url.includes('/leases') ? 'pass' : fault(request),
    );
    const operator = await operate(proxy.connection);
    t.after(async () => {
      await operator.stop();
      proxy.close();
    });
    const name = what.replaceAll(' ', '-').toLowerCase();
    await create(operator.namespace, name);
    await settles(operator.namespace, name);
    assert.ok(proxy.faults > 0);
    await cluster.client.delete(PROVISIONERS, operator.namespace, name);
    await eventually('it is gone', () =>
      cluster.client.get(PROVISIONERS, operator.namespace, name).then(
        () => false,
        () => true,
      ),
    );
  });
}

test('continues after a restart of the API server', needsKubernetes, async (t) => {
  const operator = await operate();
  t.after(() => operator.stop());
  await create(operator.namespace, 'early');
  await settles(operator.namespace, 'early');
  await cluster.restartApiServer();
  await create(operator.namespace, 'late');
  await settles(operator.namespace, 'late');
});

test('of two operators one works, and the other continues without another key', needsKubernetes, async (t) => {
  const first = await operate();
  const { namespace } = first;
  await create(namespace, 'handed-over');
  await settles(namespace, 'handed-over');
  const holder = async () =>
    (await cluster.client.get<KubeObject & { spec: { holderIdentity: string } }>(LEASES, namespace, 'coder-operator'))
      .spec.holderIdentity;
  const before = await holder();
  const second = startOperator({
    connection: { ...cluster.connection, namespace },
    watchNamespace: namespace,
    pollMs: 100,
    log: silentLogger,
  });
  t.after(() => second.stop());
  await first.stop();
  await eventually('the other one leads', async () => !['', before].includes(await holder()));
  await create(namespace, 'after');
  await settles(namespace, 'after');
  assert.equal(await keysNamed('handed-over'), 1);
});

test('a key that was created just before the operator ended does not stay', needsKubernetes, async (t) => {
  // the answer to the write of the Secret is an error, as when the operator ends before that write
  const proxy = await startFaultyProxy(cluster.connection, ({ method, url }) =>
    method === 'PATCH' && url.includes('/secrets/') ? 'cut' : 'pass',
  );
  const first = await operate(proxy.connection);
  const { namespace } = first;
  await create(namespace, 'interrupted');
  await create(namespace, 'abandoned');
  await eventually(
    'both keys are created',
    async () => (await keysNamed('interrupted')) + (await keysNamed('abandoned')) >= 2,
  );
  await first.stop();
  proxy.close();
  await cluster.client.delete(PROVISIONERS, namespace, 'abandoned');
  const second = startOperator({
    connection: { ...cluster.connection, namespace },
    watchNamespace: namespace,
    pollMs: 100,
    log: silentLogger,
  });
  t.after(() => second.stop());
  await settles(namespace, 'interrupted');
  assert.equal(await keysNamed('interrupted'), 1);
  await eventually('the other one is gone', async () => (await keysNamed('abandoned')) === 0);
});
