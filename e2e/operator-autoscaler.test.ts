// A HorizontalPodAutoscaler, as the docs show it, scales daemons by the operator's metric: with Kubernetes' own controller and
// scheduler, and a process for each pod.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { type KubeObject, PODS, type Resource } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { parse } from 'yaml';
import { gates } from './daemon-process.ts';
import { buildEnds, createWorkspace } from './harness.ts';
import { type OperatorSystem, startOperatorSystem } from './operator-system.ts';

const AUTOSCALERS: Resource = {
  group: 'autoscaling',
  version: 'v2',
  kind: 'HorizontalPodAutoscaler',
  plural: 'horizontalpodautoscalers',
};

interface Autoscaler extends KubeObject {
  spec: object;
  status?: { desiredReplicas?: number; conditions?: { type: string; status: string; reason: string }[] };
}

let system: OperatorSystem;
const { gate, remove } = gates();

before(async () => {
  if (needsKubernetes.skip) return;
  system = await startOperatorSystem({
    controllers: ['deployment-controller', 'replicaset-controller', 'horizontal-pod-autoscaler-controller'],
    controllerArgs: ['--horizontal-pod-autoscaler-sync-period=1s'],
    scheduler: true,
    externalMetrics: true,
  });
});
after(async () => {
  await system?.stop();
  remove();
});

/** The manifest of the docs. */
function documented(): Autoscaler {
  const text = readFileSync(join(import.meta.dirname, '../docs/kubernetes.md'), 'utf8');
  const block = /```yaml\n(apiVersion: autoscaling\/v2\n[\s\S]*?)```/.exec(text);
  assert.ok(block, 'the docs show a HorizontalPodAutoscaler');
  return parse(block[1]!) as Autoscaler;
}

/** Waits until the status looks like this, and returns the daemons that run a build. */
async function reaches(what: string, look: (status: Status) => unknown): Promise<string[]> {
  try {
    return busyOf((await system.reaches('berlin', what, ({ status = {} }) => look(status))).status!);
  } catch (err) {
    const { status } = await system.cluster.client.get<Autoscaler>(AUTOSCALERS, system.namespace, 'berlin');
    throw new Error(`${(err as Error).message}\n${JSON.stringify(status, null, 1)}`);
  }
}

type Status = NonNullable<Provisioner['status']>;

/** The daemons that run a build. */
const busyOf = ({ daemons = [] }: Status): string[] =>
  daemons.filter(({ status }) => status === 'busy').map(({ name }) => name);

test('a HorizontalPodAutoscaler follows the queue, and no build is stopped', needsKubernetes, async () => {
  // without replicas, as in the docs: the autoscaler finds how many there are
  await system.cluster.client.create(PROVISIONERS, {
    metadata: { namespace: system.namespace, name: 'berlin' },
    spec: {
      url: system.server.url,
      image: 'i',
      bootstrap: { credentialsSecretRef: { name: 'coder-token' } },
      tags: { location: 'berlin' },
    },
  } as unknown as Provisioner);
  const { spec } = documented();
  await system.cluster.client.create<Autoscaler>(AUTOSCALERS, {
    metadata: { namespace: system.namespace, name: 'berlin' },
    // it waits five minutes by default
    spec: { ...spec, behavior: { scaleDown: { stabilizationWindowSeconds: 0 } } },
  });
  await reaches('its one daemon is registered', ({ phase, replicas }) => phase === 'Ready' && replicas === 1);

  const tags = { location: 'berlin' };
  const doors = ['one', 'two', 'three'].map((name) => ({ name, ...gate(name) }));
  const templates: string[] = [];
  for (const { name, command } of doors) templates.push(await system.template(name, command, tags));
  const builds: string[] = [];
  for (const [at, { name }] of doors.entries())
    builds.push((await createWorkspace(system.server, templates[at]!, name)).latest_build.id);
  await reaches('three daemons build', (status) => busyOf(status).length === 3);

  doors[0]!.open();
  doors[1]!.open();
  for (const id of builds.slice(0, 2)) assert.equal((await buildEnds(system.server, id)).status, 'running');
  const [builder] = await reaches(
    'only the daemon with a build is left',
    (status) => status.replicas === 1 && status.daemons?.length === 1 && busyOf(status).length === 1,
  );
  assert.ok(system.kubelet.running.has(builder!));
  doors[2]!.open();
  assert.equal((await buildEnds(system.server, builds[2]!)).status, 'running');
  assert.equal(system.kubelet.killed, 0, 'every daemon ended by itself');
  const { items } = await system.cluster.client.list<KubeObject & { spec: { nodeName?: string } }>(PODS, {
    namespace: system.namespace,
  });
  assert.deepEqual([...new Set(items.map((pod) => pod.spec.nodeName))], ['node']);
});
