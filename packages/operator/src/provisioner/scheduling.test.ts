// Where the scheduler of Kubernetes places daemons, by the fields of a provisioner's pod template, and what a person reads about
// those that it cannot place. Nothing runs the pods: the nodes are objects only.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { PROVISIONERS, type Provisioner, type ProvisionerSpec } from '../crd/provisioner.ts';
import { isNotFound } from '../kube/client.ts';
import type { Pod } from '../kube/objects.ts';
import { type KubeObject, PODS, type Resource } from '../kube/types.ts';
import { type Operator, startOperator } from '../operator.ts';
import {
  type Cluster,
  createNode,
  installOperator,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '../testing/cluster.ts';

const PRIORITY_CLASSES: Resource = {
  group: 'scheduling.k8s.io',
  version: 'v1',
  kind: 'PriorityClass',
  plural: 'priorityclasses',
};
const ZONE = 'topology.kubernetes.io/zone';

let cluster: Cluster;
let server: TestServer;
let operator: Operator;
before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([
    startCluster({
      controllers: ['deployment-controller', 'replicaset-controller', 'job-controller'],
      scheduler: true,
    }),
    startTestServer(),
  ]);
  await installOperator(cluster);
  // every pod has the choice between these
  const taints = [{ key: 'dedicated', value: 'builds', effect: 'NoSchedule' }];
  await createNode(cluster, 'builds-a', { labels: { pool: 'builds', [ZONE]: 'a' }, taints });
  await createNode(cluster, 'builds-b', { labels: { pool: 'builds', [ZONE]: 'b' }, taints });
  await createNode(cluster, 'others', { labels: { pool: 'others', [ZONE]: 'a' } });
  operator = startOperator({ connection: cluster.connection, pollMs: 50, log: silentLogger });
});
after(async () => {
  await operator?.stop();
  await server?.stop();
  await cluster?.stop();
});

const TOLERATIONS = [{ key: 'dedicated', operator: 'Equal', value: 'builds', effect: 'NoSchedule' }];
const BUILDS = { nodeSelector: { pool: 'builds' }, tolerations: TOLERATIONS };

async function place(): Promise<string> {
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
  return namespace;
}

const create = (namespace: string, name: string, spec: Partial<ProvisionerSpec>) =>
  cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name },
    spec: { url: server.url, image: 'i', bootstrap: { credentialsSecretRef: { name: 'token' } }, ...spec },
  } as Provisioner);

type Placed = Pod & { spec: { nodeName?: string } };

async function podsOf(namespace: string, provisioner: string): Promise<Placed[]> {
  const labelSelector = `coder.com/provisioner=${provisioner}`;
  const { items } = await cluster.client.list<Placed>(PODS, { namespace, labelSelector });
  return items.filter(({ metadata }) => !metadata.deletionTimestamp);
}

/** The nodes of a provisioner's pods, as soon as each of so many pods has one. */
const nodesOf = (namespace: string, provisioner: string, count: number): Promise<string[]> =>
  eventually(`${count} pods have nodes`, async () => {
    const nodes = (await podsOf(namespace, provisioner)).map(({ spec }) => spec.nodeName ?? '');
    return nodes.length === count && !nodes.includes('') && nodes.sort();
  });

/** Waits until a condition of a provisioner is false for this reason, with such a message. */
async function reaches(namespace: string, name: string, wanted: { type: string; reason: string; message: RegExp }) {
  let seen: unknown;
  await eventually(`${wanted.type} has the reason ${wanted.reason}`, async () => {
    const { status } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);
    seen = status?.conditions;
    const found = status?.conditions?.find(({ type }) => type === wanted.type);
    return found?.status === 'False' && found.reason === wanted.reason && wanted.message.test(found.message);
  }).catch((err: Error) => {
    throw new Error(`${err.message}\n${JSON.stringify(seen, null, 1)}`);
  });
}

test('daemons run on the nodes of the selector whose taints they tolerate, and spread', needsKubernetes, async () => {
  const namespace = await place();
  const labelSelector = { matchLabels: { 'coder.com/provisioner': 'spread' } };
  await create(namespace, 'spread', {
    replicas: 4,
    podTemplate: {
      ...BUILDS,
      topologySpreadConstraints: [{ maxSkew: 1, topologyKey: ZONE, whenUnsatisfiable: 'DoNotSchedule', labelSelector }],
    },
  });
  await create(namespace, 'intolerant', { replicas: 2 });
  assert.deepEqual(await nodesOf(namespace, 'spread', 4), ['builds-a', 'builds-a', 'builds-b', 'builds-b']);
  assert.deepEqual(await nodesOf(namespace, 'intolerant', 2), ['others', 'others']);
});

test('affinity chooses nodes, and keeps daemons apart', needsKubernetes, async () => {
  const namespace = await place();
  const inB = { key: ZONE, operator: 'In', values: ['b'] };
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [inB] }] },
  };
  await create(namespace, 'zonal', {
    replicas: 2,
    podTemplate: { tolerations: TOLERATIONS, affinity: { nodeAffinity } },
  });
  const labelSelector = { matchLabels: { 'coder.com/provisioner': 'apart' } };
  const podAntiAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'kubernetes.io/hostname', labelSelector }],
  };
  await create(namespace, 'apart', { replicas: 2, podTemplate: { ...BUILDS, affinity: { podAntiAffinity } } });
  assert.deepEqual(await nodesOf(namespace, 'zonal', 2), ['builds-b', 'builds-b']);
  assert.deepEqual(await nodesOf(namespace, 'apart', 2), ['builds-a', 'builds-b']);
});

test('the conditions say why daemons cannot be scheduled, until a node takes them', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'waiting', { replicas: 2, podTemplate: { nodeSelector: { pool: 'later' } } });
  const message =
    /^0 of 2 .+\. 2 pods cannot be scheduled: 0\/\d+ nodes are available: .*didn't match Pod's node affinity/;
  await reaches(namespace, 'waiting', { type: 'DeploymentReady', reason: 'Unschedulable', message });
  await reaches(namespace, 'waiting', { type: 'Ready', reason: 'Unschedulable', message });
  await createNode(cluster, 'later', { labels: { pool: 'later' } });
  assert.deepEqual(await nodesOf(namespace, 'waiting', 2), ['later', 'later']);
  const registering = /^0 of 2 daemons are registered with the server\.$/;
  await reaches(namespace, 'waiting', { type: 'Ready', reason: 'WaitingForDaemons', message: registering });
  const starting = /^0 of 2 pods are ready\.$/;
  await reaches(namespace, 'waiting', { type: 'DeploymentReady', reason: 'PodsNotReady', message: starting });
});

test('in the mode Job too', needsKubernetes, async () => {
  const namespace = await place();
  await create(namespace, 'jobs', {
    tags: { isolation: 'pod' },
    autoscaling: { minReplicas: 0, maxReplicas: 3, idleSeconds: 300, mode: 'Job' },
    podTemplate: { nodeSelector: { pool: 'never' } },
  });
  await pendingVersion(server, { tags: { isolation: 'pod' } });
  const message = /1 pod cannot be scheduled: 0\/\d+ nodes are available/;
  await reaches(namespace, 'jobs', { type: 'Ready', reason: 'Unschedulable', message });
});

test('daemons with a higher priority take the room of others, whose condition says so', needsKubernetes, async () => {
  const namespace = await place();
  for (const [name, value] of Object.entries({ low: 1, high: 1_000 }))
    await cluster.client.create(PRIORITY_CLASSES, { metadata: { name }, value } as KubeObject);
  await createNode(cluster, 'small', { labels: { pool: 'small' }, cpu: '1' });
  const provisioner = (priorityClassName: string) =>
    create(namespace, priorityClassName, {
      replicas: 1,
      resources: { requests: { cpu: '800m' } },
      podTemplate: { nodeSelector: { pool: 'small' }, priorityClassName },
    });
  await provisioner('low');
  assert.deepEqual(await nodesOf(namespace, 'low', 1), ['small']);
  const [evicted] = await podsOf(namespace, 'low');
  await provisioner('high');
  // the node ends the pod that has to go
  await eventually('the pod of the low priority ends', async () => {
    try {
      const { metadata } = await cluster.client.get<Pod>(PODS, namespace, evicted!.metadata.name);
      if (metadata.deletionTimestamp) await cluster.client.delete(PODS, namespace, metadata.name, 0);
      return false;
    } catch (err) {
      if (!isNotFound(err)) throw err;
      return true;
    }
  });
  assert.deepEqual(await nodesOf(namespace, 'high', 1), ['small']);
  const message = /1 pod cannot be scheduled: .*Insufficient cpu/;
  await reaches(namespace, 'low', { type: 'Ready', reason: 'Unschedulable', message });
});
