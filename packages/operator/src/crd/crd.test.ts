import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { KubeError } from '../kube/client.ts';
import type { KubeObject, Resource } from '../kube/types.ts';
import { type Cluster, installOperator, needsKubernetes, startCluster } from '../testing/cluster.ts';
import { CONTROL_PLANES } from './control-plane.ts';
import { CUSTOM_RESOURCES, generatedFiles } from './files.ts';
import { PROVISIONERS, type Provisioner } from './provisioner.ts';
import { WORKSPACE_PROXIES } from './workspace-proxy.ts';

const root = join(import.meta.dirname, '../../../..');
const samples = join(root, 'packages/operator/samples');

let cluster: Cluster;
let namespace: string;
before(async () => {
  if (needsKubernetes.skip) return;
  cluster = await startCluster();
  namespace = await cluster.namespace();
  await installOperator(cluster);
});
after(() => cluster?.stop());

test('the manifests and the reference page are up to date', () => {
  for (const [path, text] of generatedFiles())
    assert.equal(readFileSync(join(root, path), 'utf8'), text, `${path} is stale: run npm run generate`);
});

const provisioner = (spec: object, name = 'a'): Provisioner =>
  ({ metadata: { namespace, name }, spec }) as unknown as Provisioner;
const OWN = { url: 'https://coder.example.com', image: 'i', bootstrap: { credentialsSecretRef: { name: 'token' } } };

test('the API server accepts every sample', needsKubernetes, async () => {
  const files = globSync('*.yaml', { cwd: samples });
  assert.ok(files.length >= 9);
  for (const file of files) {
    const sample = parse(readFileSync(join(samples, file), 'utf8')) as KubeObject;
    const resource = CUSTOM_RESOURCES.find(({ kind }) => kind === sample.kind)!;
    const made = await cluster.client.create(resource, { ...sample, metadata: { ...sample.metadata, namespace } });
    const { spec } = JSON.parse(JSON.stringify(made)) as { spec: Record<string, unknown> };
    for (const [name, value] of Object.entries((sample as unknown as { spec: object }).spec))
      assert.ok(name in spec, `${file}: ${name} was dropped, ${JSON.stringify(value)}`);
  }
});

test('the API server fills in defaults', needsKubernetes, async () => {
  const made = await cluster.client.create(PROVISIONERS, provisioner({ ...OWN, autoscaling: { maxReplicas: 3 } }));
  assert.deepEqual(made.spec.autoscaling, { maxReplicas: 3, minReplicas: 0, idleSeconds: 300, mode: 'Deployment' });
  assert.deepEqual(made.spec.workspacePermissions, { enabled: true, enableDeployments: true });
});

const REJECTED: [name: string, spec: object, message: RegExp][] = [
  ['neither a server nor a control plane', { image: 'i' }, /set either controlPlaneRef or url/],
  ['both', { ...OWN, controlPlaneRef: { name: 'a' } }, /set either controlPlaneRef or url/],
  ['a URL without credentials', { url: 'https://a', image: 'i' }, /url needs bootstrap.credentialsSecretRef/],
  ['a URL without an image', { ...OWN, image: undefined }, /url needs image/],
  ['a URL of another scheme', { ...OWN, url: 'ftp://a' }, /spec.url/],
  ['a minimum above the maximum', { ...OWN, autoscaling: { minReplicas: 4, maxReplicas: 3 } }, /must not be greater/],
  ['no maximum', { ...OWN, autoscaling: {} }, /maxReplicas/],
  ['a minimum for Jobs', { ...OWN, autoscaling: { minReplicas: 1, maxReplicas: 3, mode: 'Job' } }, /must be 0/],
  ['an unknown mode', { ...OWN, autoscaling: { maxReplicas: 3, mode: 'Pod' } }, /Unsupported value/],
  ['a negative number', { ...OWN, replicas: -1 }, /replicas/],
];
for (const [what, spec, message] of REJECTED) {
  test(`the API server rejects ${what}`, needsKubernetes, async () => {
    await assert.rejects(cluster.client.create(PROVISIONERS, provisioner(spec, 'rejected')), (err) => {
      assert.ok(err instanceof KubeError && err.status === 422, String(err));
      assert.match(err.message, message);
      return true;
    });
  });
}

const REJECTED_OTHERS: [name: string, resource: Resource, spec: object, message: RegExp][] = [
  [
    'a control plane with two databases',
    CONTROL_PLANES,
    { postgres: { connectionSecretRef: { name: 'a' }, bundled: { storage: '1Gi' } } },
    /set either postgres.connectionSecretRef or postgres.bundled/,
  ],
  [
    'several servers with a bundled database',
    CONTROL_PLANES,
    { replicas: 2, postgres: { bundled: { storage: '1Gi' } } },
    /more than one server needs a separate database/,
  ],
  [
    'a control plane with two ways from outside',
    CONTROL_PLANES,
    { expose: { ingress: { host: 'a' }, gateway: { host: 'a', parentRefs: [{ name: 'a' }] } } },
    /set either expose.ingress or expose.gateway/,
  ],
  ['a route without a Gateway', CONTROL_PLANES, { expose: { gateway: { host: 'a', parentRefs: [] } } }, /at least 1/],
  ['a proxy without a token', WORKSPACE_PROXIES, { primaryAccessURL: 'https://a' }, /set either proxySessionToken/],
  [
    'a proxy without a server',
    WORKSPACE_PROXIES,
    { proxySessionTokenSecretRef: { name: 'a' } },
    /needs primaryAccessURL/,
  ],
];
for (const [what, resource, spec, message] of REJECTED_OTHERS) {
  test(`the API server rejects ${what}`, needsKubernetes, async () => {
    const object = { metadata: { namespace, name: 'rejected' }, spec } as KubeObject;
    await assert.rejects(cluster.client.create(resource, object), message);
  });
}

test('a name must fit into a label', needsKubernetes, async () => {
  await assert.rejects(cluster.client.create(PROVISIONERS, provisioner(OWN, 'a'.repeat(64))), /at most 50 characters/);
});

test('the scale subresource has the number of daemons, and sets it', needsKubernetes, async () => {
  const { metadata } = await cluster.client.create(PROVISIONERS, provisioner(OWN, 'scaled'));
  const scale = await cluster.client.merge<Provisioner>(PROVISIONERS, { namespace, name: metadata.name }, {}, 'scale');
  assert.equal(scale.spec.replicas, 1);
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'scaled' }, { spec: { replicas: 7 } }, 'scale');
  const { spec } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'scaled');
  assert.equal(spec.replicas, 7);
});
