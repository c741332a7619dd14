// A CoderWorkspaceProxy with `bootstrap`, a real server and a real API server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { WorkspaceProxy as ProxyAtServer, WorkspaceProxiesResponse } from '@ropewalk/contract';
import { type Clock, silentLogger, systemClock } from '@ropewalk/kit';
import { createPerson, startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import { isNotFound } from '../kube/client.ts';
import type { Deployment, Secret } from '../kube/objects.ts';
import { DEPLOYMENTS, EVENTS, type KubeObject, SECRETS } from '../kube/types.ts';
import { createProofs } from '../machinery/proofs.ts';
import { type Operator, startOperator } from '../operator.ts';
import {
  type Cluster,
  installOperator,
  NAMESPACES,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';
import { FINALIZER, pendingProxies } from './facts.ts';

let cluster: Cluster;
let server: TestServer;
let operator: Operator;
/** How far the operator's clocks are ahead, in ms. */
let ahead = 0;
const clock: Clock = {
  ...systemClock,
  now: () => new Date(Date.now() + ahead),
  monotonic: () => systemClock.monotonic() + ahead,
};
const start = () => startOperator({ connection: cluster.connection, pollMs: 1_000, log: silentLogger, clock });
before(async () => {
  if (needsKubernetes.skip) return;
  cluster = await startCluster();
  server = await startTestServer();
  await installOperator(cluster);
  operator = start();
});
after(async () => {
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

/** A namespace with the Secret `token`, which holds this API token. */
async function place(token = server.adminToken): Promise<string> {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'token', { token });
  return namespace;
}

function create(namespace: string, name: string, bootstrap: object = {}): Promise<WorkspaceProxy> {
  return cluster.client.create(WORKSPACE_PROXIES, {
    metadata: { namespace, name },
    spec: {
      image: 'i',
      bootstrap: { coderURL: server.url, credentialsSecretRef: { name: 'token' }, ...bootstrap },
    },
  } as WorkspaceProxy);
}

const read = (namespace: string, name: string) =>
  cluster.client.get<WorkspaceProxy>(WORKSPACE_PROXIES, namespace, name);

/** Waits until `Ready` has this reason. Returns the object and the message. */
function reaches(namespace: string, name: string, reason: string) {
  return eventually(`${name} has the reason ${reason}`, async () => {
    const found = await read(namespace, name);
    const ready = found.status?.conditions?.find(({ type }) => type === 'Ready');
    const isCurrent = found.status?.observedGeneration === found.metadata.generation;
    return ready?.reason === reason && isCurrent ? { found, message: ready.message } : undefined;
  });
}

const atServer = async (): Promise<ProxyAtServer[]> =>
  (await server.api<WorkspaceProxiesResponse>('GET', '/workspaceproxies')).body.regions;
const byName = async (name: string) => (await atServer()).find((each) => each.name === name);

/** Whether the server accepts the token of a proxy. */
async function isAccepted(token: string): Promise<boolean> {
  const url = `${server.url}/api/v2/workspaceproxies/me/crypto-keys?feature=workspace_apps_token`;
  const { status } = await fetch(url, { headers: { 'Coder-External-Proxy-Token': token } });
  return status === 200;
}

const secretOf = (namespace: string, name: string) => cluster.client.get<Secret>(SECRETS, namespace, name);
async function tokenIn(namespace: string, name: string): Promise<string> {
  const { data } = await secretOf(namespace, name);
  return Buffer.from(data!['token']!, 'base64').toString();
}

const isGone = (namespace: string, name: string) =>
  eventually(`${name} is deleted`, () =>
    read(namespace, name).then(
      () => false,
      (err: unknown) => {
        if (!isNotFound(err)) throw err;
        return true;
      },
    ),
  );
const remove = async (namespace: string, name: string) => {
  await cluster.client.delete(WORKSPACE_PROXIES, namespace, name);
  await isGone(namespace, name);
};

test('creates a proxy, follows the spec, and deletes it', needsKubernetes, async () => {
  const namespace = await place();
  const display = { displayName: 'Berlin', icon: '/icon/aws.svg', generatedTokenSecretName: 'berlin-secret' };
  await create(namespace, 'berlin', display);
  const { found } = await reaches(namespace, 'berlin', 'ProxiesNotReady');
  const made = await byName('berlin');
  assert.deepEqual([made?.display_name, made?.icon_url], ['Berlin', '/icon/aws.svg']);
  assert.equal(found.status!.proxyID, made!.id);
  assert.deepEqual(found.status!.proxyTokenSecretRef, { name: 'berlin-secret', key: 'token' });
  assert.equal(await isAccepted(await tokenIn(namespace, 'berlin-secret')), true);
  assert.equal((await secretOf(namespace, 'berlin-secret')).metadata.ownerReferences?.[0]?.name, 'berlin');
  const { spec } = await cluster.client.get<Deployment>(DEPLOYMENTS, namespace, 'wsproxy-berlin');
  const env = spec.template.spec!.containers[0]!.env!;
  assert.equal(env.find(({ name }) => name === 'CODER_PRIMARY_ACCESS_URL')?.value, server.url);
  assert.deepEqual(env.find(({ name }) => name === 'CODER_PROXY_SESSION_TOKEN')?.valueFrom, {
    secretKeyRef: { name: 'berlin-secret', key: 'token' },
  });

  const token = await tokenIn(namespace, 'berlin-secret');
  const at = { namespace, name: 'berlin' };
  await cluster.client.merge(WORKSPACE_PROXIES, at, {
    spec: { bootstrap: { proxyName: 'mitte', displayName: 'Mitte' } },
  });
  const renamed = await eventually('the proxy has its new names', async () => {
    const now = await byName('mitte');
    return now?.display_name === 'Mitte' && now;
  });
  assert.equal(renamed.id, made!.id);
  assert.equal(await tokenIn(namespace, 'berlin-secret'), token, 'a new name needs no new token');

  await remove(namespace, 'berlin');
  assert.equal(await byName('mitte'), undefined);
  assert.equal(await isAccepted(token), false);
});

test('a lost Secret gets a new token of the same proxy, which replaces the pods', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'paris');
  const { found } = await reaches(namespace, 'paris', 'ProxiesNotReady');
  const old = await tokenIn(namespace, 'paris-proxy-token');
  const checksum = async () => {
    const { spec } = await cluster.client.get<Deployment>(DEPLOYMENTS, namespace, 'wsproxy-paris');
    return spec.template.metadata!.annotations!['checksum/proxy-token'];
  };
  const before = await checksum();
  await cluster.client.delete(SECRETS, namespace, 'paris-proxy-token');
  await eventually('another token is stored', () =>
    tokenIn(namespace, 'paris-proxy-token').then(
      (token) => token !== old,
      () => false,
    ),
  );
  await eventually('the pods get it', async () => (await checksum()) !== before);
  assert.equal((await byName('paris'))!.id, found.status!.proxyID);
  assert.equal(await isAccepted(old), false);
  assert.equal(await isAccepted(await tokenIn(namespace, 'paris-proxy-token')), true);
  await remove(namespace, 'paris');
});

test('stores another token after someone has regenerated it', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'cairo');
  await reaches(namespace, 'cairo', 'ProxiesNotReady');
  const { body } = await server.api<{ proxy_token: string }>('PATCH', '/workspaceproxies/cairo', {
    body: { regenerate_token: true },
  });
  const at = { namespace, name: 'cairo' };
  await cluster.client.merge(WORKSPACE_PROXIES, at, { spec: { bootstrap: { displayName: 'Cairo' } } });
  await eventually('the stored token is valid', async () => isAccepted(await tokenIn(namespace, 'cairo-proxy-token')));
  assert.equal(await isAccepted(body.proxy_token), false);
  await remove(namespace, 'cairo');
});

test('takes no proxy over, and creates none whose token it cannot store', needsKubernetes, async () => {
  const namespace = await place();
  const { body } = await server.api<{ proxy_token: string }>('POST', '/workspaceproxies', { body: { name: 'tokyo' } });
  await create(namespace, 'tokyo');
  const taken = await reaches(namespace, 'tokyo', 'ProxyNameTaken');
  assert.match(taken.message, /already has a workspace proxy "tokyo", which this resource did not create/);
  assert.equal(await isAccepted(body.proxy_token), true);
  await remove(namespace, 'tokyo');
  assert.ok(await byName('tokyo'));

  await storeSecret(cluster, namespace, 'mine', { token: 'a token of someone' });
  await create(namespace, 'osaka', { generatedTokenSecretName: 'mine' });
  await reaches(namespace, 'osaka', 'NameTaken');
  assert.equal(await byName('osaka'), undefined);
  assert.equal(await tokenIn(namespace, 'mine'), 'a token of someone');
  await remove(namespace, 'osaka');
});

test('what people write into its Secret names no other proxy', needsKubernetes, async () => {
  const namespace = await place();
  const victim = await server.api<{ proxy: ProxyAtServer; proxy_token: string }>('POST', '/workspaceproxies', {
    body: { name: 'victim' },
  });
  await create(namespace, 'oslo');
  const { found } = await reaches(namespace, 'oslo', 'ProxiesNotReady');
  await cluster.client.merge(
    SECRETS,
    { namespace, name: 'oslo-proxy-token' },
    { metadata: { annotations: { 'coder.com/proxy-id': victim.body.proxy.id } } },
  );
  await eventually('the operator has corrected it', async () => {
    const { metadata } = await secretOf(namespace, 'oslo-proxy-token');
    return metadata.annotations?.['coder.com/proxy-id'] === found.status!.proxyID;
  });
  await remove(namespace, 'oslo');
  assert.equal(await isAccepted(victim.body.proxy_token), true);
  assert.equal(await byName('oslo'), undefined);
});

test('finds the proxy that an operator created before it ended', needsKubernetes, async () => {
  const namespace = await place();
  await operator.stop();
  try {
    const made = await create(namespace, 'lima');
    const { client, connection } = cluster;
    const { signal } = new AbortController();
    const proofs = createProofs(client, { namespace: connection.namespace, log: silentLogger, signal });
    await proofs.ready;
    const parts = { client, clock: systemClock, proofs };
    await pendingProxies.write(parts, { store() {} }, made, { name: 'lima', url: server.url });
    await create(namespace, 'lima-forged');
    const forged = JSON.stringify({ name: 'lima-forged', url: server.url, at: new Date().toISOString(), proof: 'x' });
    await client.merge(
      WORKSPACE_PROXIES,
      { namespace, name: 'lima-forged' },
      { metadata: { annotations: { 'coder.com/pending-proxy': forged } } },
    );
    await server.api('POST', '/workspaceproxies', { body: { name: 'lima' } });
    await server.api('POST', '/workspaceproxies', { body: { name: 'lima-forged' } });
  } finally {
    operator = start();
  }
  const { found } = await reaches(namespace, 'lima', 'ProxiesNotReady');
  assert.equal(found.status!.proxyID, (await byName('lima'))!.id);
  assert.equal(await isAccepted(await tokenIn(namespace, 'lima-proxy-token')), true);
  await reaches(namespace, 'lima-forged', 'ProxyNameTaken');
});

test('says what its token may not do, and holds up no deletion for that', needsKubernetes, async () => {
  const person = await createPerson(server, 'proxy-person', ['template-admin']);
  const namespace = await place(person.token);
  await create(namespace, 'rome');
  const { message } = await reaches(namespace, 'rome', 'Forbidden');
  assert.match(message, /may not manage workspace proxies/);
  await remove(namespace, 'rome');

  const owner = await createPerson(server, 'proxy-owner', ['owner']);
  const milan = await place(owner.token);
  await create(milan, 'milan');
  const { found } = await reaches(milan, 'milan', 'ProxiesNotReady');
  assert.ok(found.metadata.finalizers?.includes(FINALIZER));
  const { status } = await server.api('PUT', '/users/proxy-owner/roles', { body: { roles: [] } });
  assert.equal(status, 200);
  await remove(milan, 'milan');
  const events = await cluster.client.list<KubeObject & { reason: string; message: string }>(EVENTS, {
    namespace: milan,
  });
  const announced = events.items.find(({ reason }) => reason === 'ProxyNotDeleted');
  assert.match(announced?.message ?? '', /\(Forbidden\).* Delete it with "coder wsproxy delete"\.$/);
  assert.ok(await byName('milan'));
});

test('a deleted namespace takes the proxy at the server with it', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'quito');
  await reaches(namespace, 'quito', 'ProxiesNotReady');
  await cluster.client.delete(SECRETS, namespace, 'token');
  // the operator reads Secrets again
  ahead += 20_000;
  await cluster.client.delete(NAMESPACES, '', namespace);
  await cluster.client.delete(WORKSPACE_PROXIES, namespace, 'quito');
  await eventually('the server has no such proxy', async () => (await byName('quito')) === undefined);
});

test('waits two minutes for a server that does not answer', needsKubernetes, async () => {
  const other = await startTestServer();
  const namespace = await place(other.adminToken);
  try {
    await create(namespace, 'delhi', { coderURL: other.url });
    await reaches(namespace, 'delhi', 'ProxiesNotReady');
  } finally {
    await other.stop();
  }
  await cluster.client.delete(WORKSPACE_PROXIES, namespace, 'delhi');
  const announced = (pattern: RegExp) =>
    eventually(String(pattern), async () => {
      const { items } = await cluster.client.list<KubeObject & { message: string }>(EVENTS, { namespace });
      return items.some(({ message }) => pattern.test(message));
    });
  await announced(/\(Unreachable\).* The operator tries again\.$/);
  ahead += 130_000;
  const at = { namespace, name: 'delhi' };
  await cluster.client.merge(WORKSPACE_PROXIES, at, { metadata: { annotations: { look: 'now' } } });
  await announced(/\(Unreachable\).* Delete it with "coder wsproxy delete"\.$/);
  await isGone(namespace, 'delhi');
});
