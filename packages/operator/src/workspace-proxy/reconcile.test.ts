import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { WORKSPACE_PROXIES, type WorkspaceProxy } from '../crd/workspace-proxy.ts';
import type { Deployment, Service } from '../kube/objects.ts';
import { DEPLOYMENTS, SERVICES } from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import { type Cluster, installOperator, needsKubernetes, startCluster, storeSecret } from '../testing/cluster.ts';

let cluster: Cluster;
let operator: Operator;
let namespace: string;
before(async () => {
  if (needsKubernetes.skip) return;
  cluster = await startCluster();
  await installOperator(cluster);
  namespace = await cluster.namespace();
  operator = startOperator({ connection: cluster.connection, pollMs: 1_000, log: silentLogger });
});
after(async () => {
  await operator?.stop();
  await cluster?.stop();
});

const create = (name: string, spec: object) =>
  cluster.client.create(WORKSPACE_PROXIES, { metadata: { namespace, name }, spec } as WorkspaceProxy);

const reaches = (name: string, reasons: Record<string, string>) =>
  eventually('the conditions', async () => {
    const found = await cluster.client.get<WorkspaceProxy>(WORKSPACE_PROXIES, namespace, name);
    const { conditions = [] } = found.status ?? {};
    const ok = Object.entries(reasons).every(
      ([type, reason]) => conditions.find((each) => each.type === type)?.reason === reason,
    );
    return ok && found.status?.observedGeneration === found.metadata.generation && found;
  });

test('runs a proxy with a token, and says what its server must have', needsKubernetes, async () => {
  const { client } = cluster;
  await create('berlin', {
    image: 'registry.example.com/coder:v0.1.0',
    primaryAccessURL: 'https://coder.example.com',
    proxySessionTokenSecretRef: { name: 'berlin-token' },
    derpOnly: true,
    extraArgs: ['--verbose'],
    extraEnv: [{ name: 'CODER_ACCESS_URL', value: 'https://berlin.example.com' }],
    service: { type: 'NodePort', port: 8080 },
  });
  const missing = await reaches('berlin', { Ready: 'SecretNotFound' });
  const message = missing.status!.conditions!.find(({ type }) => type === 'Ready')!.message;
  assert.match(message, /Create it with the session token of the proxy in the key "token"\.$/);
  await storeSecret(cluster, namespace, 'berlin-token', { token: 'id:secret' });
  // a change makes the operator look immediately
  await client.merge(WORKSPACE_PROXIES, { namespace, name: 'berlin' }, { spec: { replicas: 2 } });
  const { status } = await reaches('berlin', { Ready: 'ProxiesNotReady', Registered: 'NoProxyRegistered' });
  assert.deepEqual(status!.proxyTokenSecretRef, { name: 'berlin-token', key: 'token' });
  const { spec, metadata } = await client.get<Deployment>(DEPLOYMENTS, namespace, 'wsproxy-berlin');
  assert.equal(metadata.ownerReferences?.[0]?.kind, 'CoderWorkspaceProxy');
  const [container] = spec.template.spec!.containers;
  assert.deepEqual(container!.args, ['wsproxy', 'server', '--http-address=0.0.0.0:3001', '--derp-only', '--verbose']);
  const env = Object.fromEntries(container!.env!.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]));
  assert.equal(env['CODER_PRIMARY_ACCESS_URL'], 'https://coder.example.com');
  assert.deepEqual(env['CODER_PROXY_SESSION_TOKEN'], { secretKeyRef: { name: 'berlin-token', key: 'token' } });
  const found = await client.get<Service>(SERVICES, namespace, 'wsproxy-berlin');
  assert.deepEqual([found.spec.type, found.spec.ports![0]!.port], ['NodePort', 8080]);

  await client.merge(
    DEPLOYMENTS,
    { namespace, name: 'wsproxy-berlin' },
    { status: { replicas: 2, readyReplicas: 2, updatedReplicas: 2, observedGeneration: metadata.generation } },
    'status',
  );
  const ready = await reaches('berlin', { Ready: 'ProxiesReady', Registered: 'ProxyRegistered' });
  const { phase, readyReplicas, registered } = ready.status!;
  assert.deepEqual([phase, readyReplicas, registered], ['Ready', 2, true]);
});
