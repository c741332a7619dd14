import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createLogger, silentLogger } from '@ropewalk/kit';
import { createPerson, startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';
import { PROVISIONERS, type Provisioner } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Deployment, Role, RoleBinding, Secret } from '../kube/objects.ts';
import {
  CONFIG_MAPS,
  DEPLOYMENTS,
  EVENTS,
  type KubeObject,
  POD_DISRUPTION_BUDGETS,
  PODS,
  type Resource,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
} from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import {
  type Cluster,
  installGatewayApi,
  installOperator,
  NAMESPACES,
  needsKubernetes,
  permitRoles,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';

let cluster: Cluster;
let server: TestServer;
let operator: Operator;
before(async () => {
  if (needsKubernetes.skip) return;
  cluster = await startCluster();
  server = await startTestServer();
  await installOperator(cluster);
  await installGatewayApi(cluster);
  operator = startOperator({
    connection: cluster.connection,
    pollMs: 50,
    collectMs: 200,
    log: process.env['TEST_LOG'] ? createLogger({ level: 'debug' }) : silentLogger,
  });
});
after(async () => {
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

/** A namespace with the Secret `token`, which holds an API token of the first user. */
async function place(token = server.adminToken): Promise<string> {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'token', { token });
  return namespace;
}

async function create(namespace: string, name: string, spec: object = {}): Promise<Provisioner> {
  return cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name },
    spec: { url: server.url, image: 'i', bootstrap: { credentialsSecretRef: { name: 'token' } }, ...spec },
  } as unknown as Provisioner);
}

const read = (namespace: string, name: string) => cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);

/** Waits until the conditions of a provisioner have these reasons, and returns it. */
function reaches(namespace: string, name: string, reasons: Record<string, string>): Promise<Provisioner> {
  let last: Provisioner | undefined;
  return eventually('the conditions', async () => {
    last = await read(namespace, name);
    const { conditions = [] } = last.status ?? {};
    const ok = Object.entries(reasons).every(
      ([type, reason]) => conditions.find((condition) => condition.type === type)?.reason === reason,
    );
    return ok && last.status?.observedGeneration === last.metadata.generation && last;
  }).catch((err: Error) => {
    throw new Error(`${err.message}: ${JSON.stringify(last?.status, null, 1)}`);
  });
}

async function keys(): Promise<{ id: string; name: string; tags: Record<string, string> }[]> {
  return (
    await server.api<{ id: string; name: string; tags: Record<string, string> }[]>(
      'GET',
      '/organizations/default/provisionerkeys',
    )
  ).body;
}
const keyNames = async () => (await keys()).map(({ name }) => name);

const exists = (resource: Resource, namespace: string, name: string) =>
  cluster.client.get(resource, namespace, name).then(
    () => true,
    (err) => {
      if (isNotFound(err)) return false;
      throw err;
    },
  );

const textOf = (secret: Secret, key = 'key') => Buffer.from(secret.data![key]!, 'base64').toString();

test('creates the key, its Secret, the permissions and the Deployment', needsKubernetes, async () => {
  const { client } = cluster;
  const namespace = await place();
  const other = await cluster.namespace();
  await permitRoles(cluster, { kind: 'CoderProvisioner', from: namespace, to: other });
  await create(namespace, 'full', {
    tags: { zone: 'eu' },
    replicas: 3,
    extraArgs: ['--verbose'],
    extraEnv: [{ name: 'A', value: 'b' }],
    workspacePermissions: {
      namespaces: [namespace, other],
      enableDeployments: false,
      extraRules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }],
    },
    podTemplate: { nodeSelector: { pool: 'builds' } },
    podDisruptionBudget: { maxUnavailable: 1 },
  });
  const { status } = await reaches(namespace, 'full', { ProvisionerKeyReady: 'KeyExists', Ready: 'WaitingForDaemons' });
  assert.equal(status?.provisionerKeyName, 'full');
  assert.equal(status?.controlPlaneURL, server.url);
  const key = (await keys()).find(({ name }) => name === 'full')!;
  assert.equal(status?.provisionerKeyID, key.id);
  assert.equal(key.tags['zone'], 'eu');

  const secret = await client.get<Secret>(SECRETS, namespace, 'full-provisioner-key');
  const described = await server.api<{ id: string }>('GET', '/provisionerkeys/self', {
    token: null,
    headers: { 'Coder-Provisioner-Daemon-Key': textOf(secret) },
  });
  assert.equal(described.body.id, key.id, 'the Secret has the key of the server');

  const { spec, metadata } = await client.get<Deployment>(DEPLOYMENTS, namespace, 'full-provisioner');
  assert.equal(metadata.ownerReferences?.[0]?.name, 'full');
  assert.equal(spec.replicas, 3);
  const pod = spec.template.spec!;
  assert.equal(pod.terminationGracePeriodSeconds, 600);
  assert.deepEqual(pod.nodeSelector, { pool: 'builds' });
  assert.deepEqual(pod.containers[0]!.args, ['provisioner', 'start', '--verbose']);
  const env = Object.fromEntries(
    pod.containers[0]!.env!.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]),
  );
  assert.equal(env['CODER_URL'], server.url);
  assert.equal(env['A'], 'b');
  assert.deepEqual(env['CODER_PROVISIONER_DAEMON_KEY'], { secretKeyRef: { name: 'full-provisioner-key', key: 'key' } });

  assert.ok(await exists(SERVICE_ACCOUNTS, namespace, 'full-provisioner'));
  assert.ok(await exists(POD_DISRUPTION_BUDGETS, namespace, 'full-provisioner'));
  const role = await client.get<Role>(ROLES, other, `${namespace}:full-workspaces`);
  assert.deepEqual(
    role.rules.map(({ resources }) => resources),
    [['pods', 'persistentvolumeclaims'], ['pods']],
  );
  const binding = await client.get<RoleBinding>(ROLE_BINDINGS, namespace, 'full-workspaces');
  assert.deepEqual(binding.subjects, [{ kind: 'ServiceAccount', name: 'full-provisioner', namespace }]);

  // what no longer belongs to the spec goes, and what someone deletes comes back
  await client.merge(
    PROVISIONERS,
    { namespace, name: 'full' },
    {
      spec: { workspacePermissions: { namespaces: [namespace] }, podDisruptionBudget: null },
    },
  );
  await eventually(
    'the permissions in the other namespace are gone',
    async () =>
      !(await exists(ROLES, other, role.metadata.name)) && !(await exists(ROLE_BINDINGS, other, role.metadata.name)),
  );
  await eventually(
    'the budget is gone',
    async () => !(await exists(POD_DISRUPTION_BUDGETS, namespace, 'full-provisioner')),
  );
  await client.delete(ROLES, namespace, 'full-workspaces');
  await eventually('the role is back', () => exists(ROLES, namespace, 'full-workspaces'));
  await client.merge(DEPLOYMENTS, { namespace, name: 'full-provisioner' }, { spec: { replicas: 9 } });
  await eventually(
    'the number of daemons is back',
    async () => (await client.get<Deployment>(DEPLOYMENTS, namespace, 'full-provisioner')).spec.replicas === 3,
  );
});

test('an account exists as soon as a daemon is wanted', needsKubernetes, async () => {
  const { client } = cluster;
  const namespace = await place();
  await create(namespace, 'none', { replicas: 0 });
  await reaches(namespace, 'none', { Ready: 'ScaledToZero' });
  assert.equal(await exists(SERVICE_ACCOUNTS, namespace, 'none-provisioner'), false);
  assert.ok(await exists(DEPLOYMENTS, namespace, 'none-provisioner'));
  await client.merge(PROVISIONERS, { namespace, name: 'none' }, { spec: { replicas: 1 } });
  await reaches(namespace, 'none', { Ready: 'WaitingForDaemons' });
  assert.ok(await exists(SERVICE_ACCOUNTS, namespace, 'none-provisioner'));
});

test('a settled provisioner is not written again', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'quiet', { replicas: 0 });
  await reaches(namespace, 'quiet', { Ready: 'ScaledToZero' });
  const versions = () =>
    Promise.all([
      cluster.client.get(SECRETS, namespace, 'quiet-provisioner-key'),
      cluster.client.get(DEPLOYMENTS, namespace, 'quiet-provisioner'),
      cluster.client.get(ROLES, namespace, 'quiet-workspaces'),
    ]).then((objects) => objects.map(({ metadata }) => metadata.resourceVersion));
  const before = await versions();
  const touched = await cluster.client.merge(
    PROVISIONERS,
    { namespace, name: 'quiet' },
    { metadata: { labels: { a: 'b' } } },
  );
  // another provisioner on the same server wakes this one: there is a new key
  await create(namespace, 'later', { replicas: 0 });
  await reaches(namespace, 'later', { Ready: 'ScaledToZero' });
  assert.deepEqual(await versions(), before);
  assert.equal((await read(namespace, 'quiet')).metadata.resourceVersion, touched.metadata.resourceVersion);
});

/** A pod as the Deployment would make it now, which nothing runs. */
async function addPod(namespace: string, name: string): Promise<void> {
  const { spec } = await cluster.client.get<Deployment>(DEPLOYMENTS, namespace, `${name}-provisioner`);
  const metadata = { ...spec.template.metadata, namespace, name: `${name}-${crypto.randomUUID().slice(0, 6)}` };
  await cluster.client.create(PODS, {
    metadata,
    spec: { ...spec.template.spec, serviceAccountName: undefined },
  } as KubeObject);
}

async function removePods(namespace: string): Promise<void> {
  const { items } = await cluster.client.list(PODS, { namespace });
  for (const { metadata } of items) await cluster.client.delete(PODS, namespace, metadata.name);
}

const CHANGES: [what: string, patch: object][] = [
  ['other tags', { tags: { zone: 'us' } }],
  ['another key name', { key: { name: 'Renamed-Key' } }],
  ['another Secret', { key: { secretName: 'elsewhere', secretKey: 'text' } }],
];
for (const [what, patch] of CHANGES) {
  test(`${what}: a new key replaces the old one, which stays until no pod uses it`, needsKubernetes, async () => {
    const namespace = await place();
    const name = `rotated-${crypto.randomUUID().slice(0, 6)}`;
    await create(namespace, name, { tags: { zone: 'eu' } });
    const first = await reaches(namespace, name, { ProvisionerKeySecretReady: 'SecretExists' });
    const old = first.status!.provisionerKeyName!;
    await addPod(namespace, name);
    await cluster.client.merge(PROVISIONERS, { namespace, name }, { spec: patch });
    const next = await reaches(namespace, name, { ProvisionerKeySecretReady: 'SecretExists' });
    const current = next.status!.provisionerKeyName!;
    assert.notEqual(current, old);
    assert.deepEqual(
      next.status!.retiredKeys?.map((key) => key.name),
      [old],
    );
    assert.deepEqual((await keyNames()).filter((key) => key === old || key === current).sort(), [old, current].sort());
    assert.deepEqual(next.status!.secretRef, {
      name: `${name}-provisioner-key`,
      key: 'key',
      ...(what === 'another Secret' ? { name: 'elsewhere', key: 'text' } : {}),
    });
    await removePods(namespace);
    await eventually('the old key is gone', async () => !(await keyNames()).includes(old));
    assert.ok((await keyNames()).includes(current));
    await eventually('the status says so', async () => !(await read(namespace, name)).status!.retiredKeys);
  });
}

test('a lost Secret and a key deleted on the server are replaced', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'lost');
  await reaches(namespace, 'lost', { ProvisionerKeySecretReady: 'SecretExists' });
  const secret = () => cluster.client.get<Secret>(SECRETS, namespace, 'lost-provisioner-key');
  const first = textOf(await secret());
  await cluster.client.delete(SECRETS, namespace, 'lost-provisioner-key');
  const second = await eventually('another Secret', () =>
    secret().then(
      (found) => textOf(found),
      () => undefined,
    ),
  );
  assert.notEqual(second, first);
  await eventually('the key of the lost Secret is gone', async () => !(await keyNames()).includes('lost'));

  const name = await eventually('the status has the new key', async () => {
    const { provisionerKeyName } = (await read(namespace, 'lost')).status!;
    return provisionerKeyName !== 'lost' && provisionerKeyName;
  });
  const gone = await server.api('DELETE', `/organizations/default/provisionerkeys/${name}`);
  assert.equal(gone.status, 204);
  const third = await eventually('a key that exists', async () => {
    const text = textOf(await secret());
    return text !== second && text;
  });
  const { status } = await server.api('GET', '/provisionerkeys/self', {
    token: null,
    headers: { 'Coder-Provisioner-Daemon-Key': third },
  });
  assert.equal(status, 200);
});

test('the key of someone else with the same name stays', needsKubernetes, async () => {
  await server.api('POST', '/organizations/default/provisionerkeys', { body: { name: 'shared', tags: {} } });
  const namespace = await place();
  await create(namespace, 'shared');
  const { status } = await reaches(namespace, 'shared', { ProvisionerKeyReady: 'KeyExists' });
  assert.match(status!.provisionerKeyName!, /^shared-[0-9a-f]{6}$/);
  await cluster.client.delete(PROVISIONERS, namespace, 'shared');
  await eventually('its own key is gone', async () => !(await keyNames()).includes(status!.provisionerKeyName!));
  assert.ok((await keyNames()).includes('shared'));
});

test('a server that cannot be used is a condition and an event', needsKubernetes, async (t) => {
  const member = await createPerson(server, 'plain-member');
  const auditor = await createPerson(server, 'auditor', ['auditor']);
  const cases: [name: string, spec: object, token: string | undefined, condition: string, reason: string][] = [
    ['away', { url: 'http://127.0.0.1:1' }, server.adminToken, 'ControlPlaneReady', 'Unreachable'],
    ['rejected', {}, 'no-such-token', 'OperatorAccessReady', 'Unauthorized'],
    ['forbidden', {}, member.token, 'OperatorAccessReady', 'Forbidden'],
    ['no-organization', { organizationName: 'none' }, server.adminToken, 'OperatorAccessReady', 'Forbidden'],
    ['read-only', {}, auditor.token, 'OperatorAccessReady', 'Forbidden'],
    ['no-secret', {}, undefined, 'OperatorAccessReady', 'SecretNotFound'],
    ['empty-secret', {}, '', 'OperatorAccessReady', 'SecretKeyMissing'],
    [
      'no-control-plane',
      { url: undefined, controlPlaneRef: { name: 'none' } },
      server.adminToken,
      'ControlPlaneReady',
      'NotFound',
    ],
  ];
  for (const [name, spec, token, type, reason] of cases) {
    await t.test(name, async () => {
      const namespace = token === undefined ? await cluster.namespace() : await place(token);
      await create(namespace, name, spec);
      const found = await reaches(namespace, name, { [type]: reason, Ready: reason });
      assert.equal(found.status?.phase, 'Pending');
      const { items } = await cluster.client.list<KubeObject & { reason: string; type: string }>(EVENTS, { namespace });
      assert.ok(items.some((event) => event.type === 'Warning' && event.reason === reason));
      await cluster.client.delete(PROVISIONERS, namespace, name);
      await eventually('it can be deleted', async () => !(await exists(PROVISIONERS, namespace, name)));
    });
  }
});

const MISTAKES: [what: string, spec: object, message: RegExp][] = [
  [
    'rules that the operator may not grant',
    { workspacePermissions: { extraRules: [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'] }] } },
    /attempting to grant RBAC permissions not currently held/,
  ],
  ['a wrong pod template', { podTemplate: { volumeMounts: [{ name: 'none', mountPath: '/x' }] } }, /volumeMounts/],
];
for (const [what, spec, message] of MISTAKES) {
  test(`${what}: a condition says so until the spec is corrected`, needsKubernetes, async () => {
    const namespace = await place();
    await create(namespace, 'mistaken', { ...spec, replicas: 0 });
    const { status } = await reaches(namespace, 'mistaken', { Ready: 'Rejected' });
    assert.match(status!.conditions!.find(({ type }) => type === 'Ready')!.message, message);
    const none = Object.fromEntries(Object.keys(spec).map((field) => [field, null]));
    await cluster.client.merge(PROVISIONERS, { namespace, name: 'mistaken' }, { spec: none });
    await reaches(namespace, 'mistaken', { Ready: 'ScaledToZero' });
  });
}

test('gives no rights in a namespace that does not permit it', needsKubernetes, async () => {
  const namespace = await place();
  const [victim, other] = await Promise.all([cluster.namespace(), cluster.namespace()]);
  await permitRoles(cluster, { kind: 'CoderProvisioner', from: other, to: victim });
  await permitRoles(cluster, { kind: 'CoderControlPlane', from: namespace, to: victim });
  await create(namespace, 'hostile', {
    workspacePermissions: {
      namespaces: [namespace, victim],
      extraRules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list'] }],
    },
  });
  const { status } = await reaches(namespace, 'hostile', { Ready: 'RefNotPermitted' });
  const { message } = status!.conditions!.find(({ type }) => type === 'Ready')!;
  assert.ok(message.includes(JSON.stringify(victim)), message);
  assert.ok(await exists(ROLES, namespace, 'hostile-workspaces'), 'it may have rights at home');
  for (const resource of [ROLES, ROLE_BINDINGS])
    assert.deepEqual((await cluster.client.list(resource, { namespace: victim })).items, []);
  await permitRoles(cluster, { kind: 'CoderProvisioner', from: namespace, to: victim });
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'hostile' }, { spec: { replicas: 0 } });
  await reaches(namespace, 'hostile', { Ready: 'ScaledToZero' });
  assert.ok(await exists(ROLES, victim, `${namespace}:hostile-workspaces`));
});

test('provisioners whose names make the same text have their own roles elsewhere', needsKubernetes, async () => {
  const { client } = cluster;
  const namespace = await place();
  const longer = `${namespace}-a`;
  await client.create<KubeObject>(NAMESPACES, { metadata: { name: longer } });
  await storeSecret(cluster, longer, 'token', { token: server.adminToken });
  const other = await cluster.namespace();
  for (const [from, name] of [
    [namespace, 'a-b'],
    [longer, 'b'],
  ] as const) {
    await permitRoles(cluster, { kind: 'CoderProvisioner', from, to: other });
    await create(from, name, { replicas: 0, workspacePermissions: { namespaces: [other] } });
    await reaches(from, name, { Ready: 'ScaledToZero' });
  }
  const { items } = await client.list<RoleBinding>(ROLE_BINDINGS, { namespace: other });
  assert.deepEqual(
    items.map(({ subjects, roleRef }) => [subjects?.[0]?.namespace, subjects?.[0]?.name, roleRef.name]).sort(),
    [
      [namespace, 'a-b-provisioner', `${namespace}:a-b-workspaces`],
      [longer, 'b-provisioner', `${longer}:b-workspaces`],
    ],
  );
});

test('roles under the names of earlier releases are replaced', needsKubernetes, async () => {
  const { client } = cluster;
  const namespace = await place();
  const other = await cluster.namespace();
  await permitRoles(cluster, { kind: 'CoderProvisioner', from: namespace, to: other });
  await create(namespace, 'older', { replicas: 0, workspacePermissions: { namespaces: [other] } });
  await reaches(namespace, 'older', { Ready: 'ScaledToZero' });
  const { metadata, rules } = await client.get<Role>(ROLES, other, `${namespace}:older-workspaces`);
  const earlier = { name: `${namespace}-older-workspaces`, namespace: other, labels: metadata.labels! };
  await client.create(ROLES, { metadata: earlier, rules } as Role);
  await client.merge(PROVISIONERS, { namespace, name: 'older' }, { spec: { tags: { zone: 'eu' } } });
  await eventually('the earlier role is gone', async () => !(await exists(ROLES, other, earlier.name)));
  assert.ok(await exists(ROLES, other, metadata.name));
});

test('a Secret of someone else stays as it is, and no key is made for it', needsKubernetes, async () => {
  const namespace = await place();
  await storeSecret(cluster, namespace, 'database', { password: 'theirs' });
  const before = await cluster.client.get<Secret>(SECRETS, namespace, 'database');
  await create(namespace, 'grabbing', { key: { secretName: 'database' } });
  const { status } = await reaches(namespace, 'grabbing', { Ready: 'NameTaken' });
  const { message } = status!.conditions!.find(({ type }) => type === 'Ready')!;
  assert.match(
    message,
    /^The Secret "database" in the namespace "[^"]+" exists already, and it belongs to something else\. /,
  );
  assert.ok(!(await keyNames()).includes('grabbing'));
  // nor is one deleted that a person took over
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'grabbing' }, { spec: { key: { secretName: 'own' } } });
  await reaches(namespace, 'grabbing', { ProvisionerKeySecretReady: 'SecretExists' });
  const mine = { labels: null, ownerReferences: null };
  await cluster.client.merge(SECRETS, { namespace, name: 'own' }, { metadata: mine });
  await reaches(namespace, 'grabbing', { Ready: 'NameTaken' });
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'grabbing' }, { spec: { key: { secretName: 'next' } } });
  await reaches(namespace, 'grabbing', { ProvisionerKeySecretReady: 'SecretExists' });
  assert.ok(await exists(SECRETS, namespace, 'own'));
  assert.deepEqual(await cluster.client.get<Secret>(SECRETS, namespace, 'database'), before);
});

test('a deletion removes the key and the permissions elsewhere', needsKubernetes, async () => {
  const namespace = await place();
  const other = await cluster.namespace();
  await permitRoles(cluster, { kind: 'CoderProvisioner', from: namespace, to: other });
  await create(namespace, 'going', { workspacePermissions: { namespaces: [other] } });
  await reaches(namespace, 'going', { ProvisionerKeyReady: 'KeyExists' });
  assert.ok(await exists(ROLES, other, `${namespace}:going-workspaces`));
  await cluster.client.delete(PROVISIONERS, namespace, 'going');
  await eventually('it is gone', async () => !(await exists(PROVISIONERS, namespace, 'going')));
  assert.ok(!(await keyNames()).includes('going'));
  assert.ok(!(await exists(ROLES, other, `${namespace}:going-workspaces`)));
});

test('a key that cannot be deleted does not hold up the deletion and is collected later', needsKubernetes, async () => {
  const { body } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body: { token_name: 'soon' } });
  const namespace = await place(body.key);
  await create(namespace, 'orphan');
  await reaches(namespace, 'orphan', { ProvisionerKeyReady: 'KeyExists' });
  const revoked = await server.api('DELETE', `/users/me/keys/${body.key.split('-')[0]}`);
  assert.equal(revoked.status, 204);
  await cluster.client.delete(PROVISIONERS, namespace, 'orphan');
  await eventually('it is gone', async () => !(await exists(PROVISIONERS, namespace, 'orphan')));
  assert.ok((await keyNames()).includes('orphan'));
  const { items } = await cluster.client.list<KubeObject & { reason: string }>(EVENTS, { namespace });
  assert.ok(items.some(({ reason }) => reason === 'KeyNotDeleted'));
  const noted = await cluster.client.get<KubeObject & { data: Record<string, string> }>(
    CONFIG_MAPS,
    'default',
    'coder-operator-uncollected-keys',
  );
  assert.ok(!JSON.stringify(noted.data).includes(body.key));

  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
  await eventually('the key is collected', async () => !(await keyNames()).includes('orphan'));
});
