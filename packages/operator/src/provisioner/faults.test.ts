import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { silentLogger, systemClock } from '@ropewalk/kit';
import { pendingVersion } from '@ropewalk/testkit';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { startPipe } from '@ropewalk/testkit/tcp-proxy';
import { eventually } from '@ropewalk/testkit/wait';
import { manifestOf } from '../crd/manifest.ts';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Connection } from '../kube/connection.ts';
import type { Deployment } from '../kube/objects.ts';
import {
  CONFIG_MAPS,
  DEPLOYMENTS,
  EVENTS,
  type KubeObject,
  LEASES,
  POD_DISRUPTION_BUDGETS,
  ROLES,
  SECRETS,
} from '../kube/types.ts';
import { type Operator, type OperatorOptions, startOperator } from '../operator.ts';
import {
  type Cluster,
  CRDS,
  installOperator,
  NAMESPACES,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';
import { type Fault, startFaultyProxy } from '../testing/faulty-proxy.ts';

let cluster: Cluster;
let server: TestServer;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([startCluster({ controllers: ['namespace-controller'] }), startTestServer()]);
  await installOperator(cluster);
});
after(async () => {
  await server?.stop();
  await cluster?.stop();
});

/** An operator with its own lease, so that each test has its leader immediately. */
async function operate(
  connection: Connection = cluster.connection,
  options: Partial<OperatorOptions> = {},
): Promise<Operator & { namespace: string }> {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
  return { ...operateIn(namespace, connection, options), namespace };
}

function operateIn(
  namespace: string,
  connection: Connection = cluster.connection,
  options: Partial<OperatorOptions> = {},
): Operator {
  return startOperator({
    connection: { ...connection, namespace },
    watchNamespace: namespace,
    pollMs: 100,
    collectMs: 200,
    log: silentLogger,
    ...options,
  });
}

async function create(namespace: string, name: string, changes: object = {}): Promise<void> {
  const bootstrap = { credentialsSecretRef: { name: 'token' } };
  const spec = { url: server.url, image: 'i', replicas: 0, bootstrap, ...changes };
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

const isGone = (namespace: string, name: string) =>
  cluster.client.get(PROVISIONERS, namespace, name).then(
    () => false,
    (err) => {
      if (isNotFound(err)) return true;
      throw err;
    },
  );

const keysNamed = async (name: string) => {
  const { body } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  return body.filter((key) => key.name.startsWith(name)).length;
};

test('deletes no key that a person named in a Secret or in a note', needsKubernetes, async (t) => {
  const operator = await operate();
  const { namespace } = operator;
  t.after(() => operator.stop());
  const post = await server.api('POST', '/organizations/default/provisionerkeys', {
    body: { name: 'others', tags: {} },
  });
  assert.equal(post.status, 201);
  const keys = await server.api<{ id: string; name: string; created_at: string }[]>(
    'GET',
    '/organizations/default/provisionerkeys',
  );
  const victim = keys.body.find(({ name }) => name === 'others')!;
  await create(namespace, 'greedy');
  await settles(namespace, 'greedy');
  const secret = await cluster.client.get<KubeObject>(SECRETS, namespace, 'greedy-provisioner-key');
  const forged = { 'coder.com/key-name': victim.name, 'coder.com/key-id': victim.id };
  const annotations = { ...secret.metadata.annotations, ...forged };
  await cluster.client.merge(SECRETS, { namespace, name: secret.metadata.name }, { metadata: { annotations } });
  // the operator takes the key for lost, and replaces it
  const replaced = await eventually('another key', async () => {
    const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'greedy');
    return status?.provisionerKeyName !== 'greedy' && status;
  });
  assert.match(replaced.provisionerKeyName!, /^greedy-/);
  const at = victim.created_at;
  const note = { name: victim.name, organizationName: 'default', url: server.url, at, proof: 'made up' };
  for (const text of [JSON.stringify(note), 'no JSON'])
    await cluster.client.merge(
      PROVISIONERS,
      { namespace, name: 'greedy' },
      { metadata: { annotations: { 'coder.com/pending-key': text } } },
    );
  await cluster.client.delete(PROVISIONERS, namespace, 'greedy');
  await eventually('it is gone', () => isGone(namespace, 'greedy'));
  await eventually('its own keys are gone', async () => (await keysNamed('greedy')) === 0);
  assert.equal(await keysNamed('others'), 1);
});

test('continues with a key that it stored just before it ended', needsKubernetes, async (t) => {
  const first = await operate();
  const { namespace } = first;
  await create(namespace, 'stored');
  await settles(namespace, 'stored');
  await first.stop();
  // as if its status had not been written
  const none = { provisionerKeyName: null, provisionerKeyID: null, phase: null };
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'stored' }, { status: none }, 'status');
  const again = operateIn(namespace);
  t.after(() => again.stop());
  const { status } = await settles(namespace, 'stored');
  assert.equal(status!.provisionerKeyName, 'stored');
  assert.equal(await keysNamed('stored'), 1);
});

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
      // an election waits two seconds after a failure, and has its own test
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
    await eventually('it is gone', () => isGone(operator.namespace, name));
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
  const second = operateIn(namespace);
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
  const second = operateIn(namespace);
  t.after(() => second.stop());
  await settles(namespace, 'interrupted');
  assert.equal(await keysNamed('interrupted'), 1);
  await eventually('the other one is gone', async () => (await keysNamed('abandoned')) === 0);
});

test('in a namespace that is deleted, the key goes even if the token went first', needsKubernetes, async (t) => {
  // its lease must outlive the namespace
  const home = await cluster.namespace();
  const namespace = await cluster.namespace();
  let later = 0;
  const operator = startOperator({
    connection: { ...cluster.connection, namespace: home },
    pollMs: 100,
    log: silentLogger,
    clock: { ...systemClock, monotonic: () => systemClock.monotonic() + later },
  });
  t.after(() => operator.stop());
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
  await create(namespace, 'terminated');
  await settles(namespace, 'terminated');
  await cluster.client.delete(SECRETS, namespace, 'token');
  // a token that was read is believed for a moment, and a change makes the operator look again
  later = 60_000;
  await eventually('the token is missed', async () => {
    const labels = { look: crypto.randomUUID().slice(0, 8) };
    await cluster.client.merge(PROVISIONERS, { namespace, name: 'terminated' }, { metadata: { labels } });
    const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'terminated');
    return status?.conditions?.some(({ reason }) => reason === 'SecretNotFound');
  });
  await cluster.client.delete(NAMESPACES, '', namespace);
  // nothing holds the namespace up any more
  await eventually('the provisioner is gone', () => isGone(namespace, 'terminated'));
  assert.equal(await keysNamed('terminated'), 0);
});

test('continues while its resources are upgraded, with the same key', needsKubernetes, async (t) => {
  const current = manifestOf(PROVISIONERS);
  const earlier = structuredClone(current) as unknown as {
    spec: { versions: { schema: { openAPIV3Schema: { properties: { spec: { properties: object } } } } }[] };
  };
  const { properties } = earlier.spec.versions[0]!.schema.openAPIV3Schema.properties.spec;
  delete (properties as { podDisruptionBudget?: object }).podDisruptionBudget;
  t.after(() => cluster.client.apply(CRDS, current));
  await cluster.client.apply(CRDS, earlier as unknown as KubeObject);
  const operator = await operate();
  t.after(() => operator.stop());
  const { namespace } = operator;
  await create(namespace, 'upgraded');
  const before = await settles(namespace, 'upgraded');
  const budget = { spec: { podDisruptionBudget: { maxUnavailable: 2 } } };
  const change = () => cluster.client.merge<Provisioner>(PROVISIONERS, { namespace, name: 'upgraded' }, budget);
  assert.equal((await change()).spec.podDisruptionBudget, undefined, 'the earlier version has no such field');
  await cluster.client.apply(CRDS, current);
  await eventually('the API server has the field', async () => (await change()).spec.podDisruptionBudget);
  // the API server ends watches of the earlier version a moment later, and those still lack the field
  await eventually('the operator applies it with the next change', async () => {
    const labels = { look: crypto.randomUUID().slice(0, 8) };
    await cluster.client.merge(PROVISIONERS, { namespace, name: 'upgraded' }, { metadata: { labels } });
    return cluster.client.get(POD_DISRUPTION_BUDGETS, namespace, 'upgraded-provisioner').then(
      () => true,
      () => false,
    );
  });
  const after = await settles(namespace, 'upgraded');
  assert.equal(after.status!.provisionerKeyID, before.status!.provisionerKeyID);
  assert.equal(await keysNamed('upgraded'), 1);
});

/** An operator, and a pipe to the test's server that can be cut. */
async function operateThroughPipe(t: TestContext, options: Partial<OperatorOptions> = {}) {
  const { namespace, ...first } = await operate(cluster.connection, options);
  let operator: Operator | undefined = first;
  const pipe = await startPipe({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  const stop = async () => {
    await operator?.stop();
    operator = undefined;
  };
  t.after(async () => {
    await stop();
    pipe.close();
  });
  const start = () => {
    operator = operateIn(namespace, cluster.connection, options);
  };
  return { namespace, pipe, url: `http://127.0.0.1:${pipe.port}`, stop, start };
}

const KEY_LIST = 'coder-operator-uncollected-keys';
type KeyList = KubeObject & { data?: Record<string, string> };

/** The keys that the operator could not delete yet. */
const uncollected = async (namespace: string) =>
  Object.values((await cluster.client.get<KeyList>(CONFIG_MAPS, namespace, KEY_LIST)).data ?? {});

/** The messages of the warnings that a key was not deleted, by the kind of the object that they are about. */
const keyWarnings = async (namespace: string, kind: string) =>
  (
    await cluster.client.list<KubeObject & { reason: string; message: string; involvedObject: { kind: string } }>(
      EVENTS,
      { namespace },
    )
  ).items
    .filter(({ reason, involvedObject }) => reason === 'KeyNotDeleted' && involvedObject.kind === kind)
    .map(({ message }) => message);

test(
  'a deletion does not wait for an unreachable server, and deletes the key when the server is back',
  needsKubernetes,
  async (t) => {
    const { namespace, pipe, url } = await operateThroughPipe(t);
    await create(namespace, 'unreachable', { url });
    await settles(namespace, 'unreachable');
    pipe.cut();
    await cluster.client.delete(PROVISIONERS, namespace, 'unreachable');
    await eventually('it is gone', () => isGone(namespace, 'unreachable'));
    assert.equal(await keysNamed('unreachable'), 1);
    pipe.mend();
    await eventually('the key is collected', async () => (await keysNamed('unreachable')) === 0);
  },
);

test('a key that waits for its server is collected after a restart of the operator', needsKubernetes, async (t) => {
  const { namespace, pipe, url, stop, start } = await operateThroughPipe(t);
  await create(namespace, 'restarted', { url });
  await settles(namespace, 'restarted');
  pipe.cut();
  await cluster.client.delete(PROVISIONERS, namespace, 'restarted');
  await eventually('it is gone', () => isGone(namespace, 'restarted'));
  await stop();
  pipe.mend();
  assert.equal(await keysNamed('restarted'), 1);
  start();
  await eventually('the key is collected', async () => (await keysNamed('restarted')) === 0);
  await eventually('it is no longer listed', async () => (await uncollected(namespace)).length === 0);
});

test(
  'a key whose server is gone for good is given up after a month, and an event names it',
  needsKubernetes,
  async (t) => {
    let laterMs = 0;
    const clock = { ...systemClock, now: () => new Date(Date.now() + laterMs) };
    const { namespace, pipe, url } = await operateThroughPipe(t, { clock });
    await create(namespace, 'given-up', { url });
    await settles(namespace, 'given-up');
    pipe.cut();
    await cluster.client.delete(PROVISIONERS, namespace, 'given-up');
    await eventually('it is gone', () => isGone(namespace, 'given-up'));
    const [first] = await keyWarnings(namespace, 'CoderProvisioner');
    assert.match(first!, /"given-up" .* The operator tries again for 30 days\.$/);
    laterMs = 29 * 86_400_000;
    assert.equal((await uncollected(namespace)).length, 1);
    laterMs = 31 * 86_400_000;
    await eventually('it is no longer listed', async () => (await uncollected(namespace)).length === 0);
    const [last] = await keyWarnings(namespace, 'ConfigMap');
    assert.match(last!, /^Gave up deleting the provisioner key "given-up" .* after 30 days \(Unreachable\)/);
    assert.ok(last!.includes(url));
  },
);

test('with too many keys to collect, a deletion goes on and the event names the key', needsKubernetes, async (t) => {
  const { namespace, pipe, url } = await operateThroughPipe(t, { collectMs: 3_600_000 });
  const entry = JSON.stringify({ since: new Date().toISOString() });
  const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`key-${at}`, entry]));
  await create(namespace, 'surplus', { url });
  await settles(namespace, 'surplus');
  await cluster.client.create<KeyList>(CONFIG_MAPS, { metadata: { namespace, name: KEY_LIST }, data });
  pipe.cut();
  await cluster.client.delete(PROVISIONERS, namespace, 'surplus');
  await eventually('it is gone', () => isGone(namespace, 'surplus'));
  assert.equal((await uncollected(namespace)).length, 1_000);
  const [warning] = await keyWarnings(namespace, 'CoderProvisioner');
  assert.match(warning!, /"surplus" .* Delete it on the server\.$/);
});

test("a deletion of the operator's namespace does not wait for an unreachable server", needsKubernetes, async (t) => {
  const { namespace, pipe, url } = await operateThroughPipe(t);
  await create(namespace, 'homeless', { url });
  await settles(namespace, 'homeless');
  pipe.cut();
  await cluster.client.delete(NAMESPACES, '', namespace);
  await eventually('it is gone', () => isGone(namespace, 'homeless'));
});

test('the key of a server with another URL is deleted there, by its id', needsKubernetes, async (t) => {
  const { namespace, url, stop } = await operateThroughPipe(t);
  const move = (name: string) => cluster.client.merge(PROVISIONERS, { namespace, name }, { spec: { url } });
  for (const name of ['moved', 'moved-and-deleted']) {
    await create(namespace, name);
    await settles(namespace, name);
  }
  const before = (await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'moved')).status!;
  await stop();
  await move('moved');
  await move('moved-and-deleted');
  await cluster.client.delete(PROVISIONERS, namespace, 'moved-and-deleted');
  // the deletion is repeated after a conflict, when the key is gone already
  let conflicts = 0;
  const proxy = await startFaultyProxy(cluster.connection, ({ method, url: path }) =>
    method === 'PATCH' && path.includes('/coderprovisioners/moved-and-deleted') && conflicts++ === 0 ? 409 : 'pass',
  );
  const second = operateIn(namespace, proxy.connection);
  t.after(async () => {
    await second.stop();
    proxy.close();
  });
  await eventually('the other one is gone', () => isGone(namespace, 'moved-and-deleted'));
  assert.equal(await keysNamed('moved-and-deleted'), 0);
  const after = await eventually('the key is replaced', async () => {
    const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'moved');
    return status?.controlPlaneURL === url && status.retiredKeys === undefined && status;
  });
  assert.notEqual(after.provisionerKeyID, before.provisionerKeyID);
  assert.equal(await keysNamed('moved'), 1);
  assert.deepEqual(await keyWarnings(namespace, 'CoderProvisioner'), []);
});

test('a token goes to its own server only, whatever URL a key names', needsKubernetes, async (t) => {
  const { namespace, pipe, url } = await operateThroughPipe(t);
  let received = 0;
  const foreign = createServer((_, res) => {
    received++;
    res.writeHead(404).end();
  });
  await new Promise<void>((done) => foreign.listen(0, '127.0.0.1', done));
  t.after(() => foreign.close());
  await create(namespace, 'redirected', { url });
  await settles(namespace, 'redirected');
  pipe.cut();
  const annotations = { 'coder.com/key-url': `http://127.0.0.1:${(foreign.address() as AddressInfo).port}` };
  await cluster.client.merge(SECRETS, { namespace, name: 'redirected-provisioner-key' }, { metadata: { annotations } });
  await cluster.client.delete(PROVISIONERS, namespace, 'redirected');
  await eventually('it is gone', () => isGone(namespace, 'redirected'));
  pipe.mend();
  await eventually('its own server deletes the key', async () => (await keysNamed('redirected')) === 0);
  assert.equal(received, 0);
});

test('a key that was not stored at an earlier URL is named by an event', needsKubernetes, async (t) => {
  const proxy = await startFaultyProxy(cluster.connection, ({ method, url }) =>
    method === 'PATCH' && url.includes('/secrets/') ? 'cut' : 'pass',
  );
  const { namespace, ...first } = await operate(proxy.connection);
  await create(namespace, 'unstored');
  await eventually('the key is created', async () => (await keysNamed('unstored')) > 0);
  await first.stop();
  proxy.close();
  const pipe = await startPipe({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  const spec = { url: `http://127.0.0.1:${pipe.port}` };
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'unstored' }, { spec });
  const second = operateIn(namespace);
  t.after(async () => {
    await second.stop();
    pipe.close();
  });
  await settles(namespace, 'unstored');
  const [warning] = await keyWarnings(namespace, 'CoderProvisioner');
  assert.match(warning!, /^The provisioner key "unstored" .* may remain at /);
  assert.ok(warning!.includes(server.url));
});

test('while the server rejects the token or is away, no daemon is removed', needsKubernetes, async (t) => {
  const { namespace, pipe, url } = await operateThroughPipe(t);
  const { body } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    body: { token_name: 'short' },
  });
  await storeSecret(cluster, namespace, 'short', { token: body.key });
  // The server always answers for `control`. When `control` has scaled down, the idle time is over.
  for (const [name, changes] of [
    ['scaled', { url, bootstrap: { credentialsSecretRef: { name: 'short' } } }],
    ['control', {}],
  ] as const) {
    const autoscaling = { minReplicas: 0, maxReplicas: 3, idleSeconds: 1, mode: 'Deployment' };
    await create(namespace, name, { ...changes, tags: { size: name }, replicas: undefined, autoscaling });
    await settles(namespace, name);
  }
  const replicas = async (name: string) =>
    (await cluster.client.get<Deployment>(DEPLOYMENTS, namespace, `${name}-provisioner`)).spec.replicas;
  const reach = (name: string, count: number) =>
    eventually(`${name} has ${count} replicas`, async () => (await replicas(name)) === count, 30_000);
  const says = (reason: string) =>
    eventually(`a condition says ${reason}`, async () => {
      const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'scaled');
      return status?.conditions?.some((each) => each.type === 'Ready' && each.reason === reason);
    });
  const keepsItsDaemonWhile = async (away: () => unknown, reason: string) => {
    const jobs: { id: string }[] = [];
    for (const name of ['scaled', 'control']) {
      jobs.push(await pendingVersion(server, { tags: { size: name } }));
      await reach(name, 1);
    }
    await away();
    await says(reason);
    // the operator cannot see that the job of `scaled` has ended
    for (const { id } of jobs) await server.api('PATCH', `/templateversions/${id}/cancel`);
    await reach('control', 0);
    assert.equal(await replicas('scaled'), 1);
  };

  await keepsItsDaemonWhile(() => server.api('DELETE', `/users/me/keys/${body.key.split('-')[0]}`), 'Unauthorized');
  await storeSecret(cluster, namespace, 'short', { token: server.adminToken });
  await reach('scaled', 0);
  assert.equal(await keysNamed('scaled'), 1, 'the key is the same');

  await keepsItsDaemonWhile(pipe.cut, 'Unreachable');
  pipe.mend();
  await reach('scaled', 0);
});
