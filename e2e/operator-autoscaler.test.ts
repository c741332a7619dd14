// A HorizontalPodAutoscaler, as the docs show it, scales daemons by the operator's metric: with Kubernetes' own controller and
// scheduler, and a process for each pod.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PROVISIONERS, type Provisioner } from '@platform/operator/crd/provisioner';
import { type KubeObject, PODS, type Resource, SECRETS } from '@platform/operator/kube/types';
import {
  type Cluster,
  createNode,
  freePorts,
  installOperator,
  needsKubernetes,
  permitExternalMetrics,
  registerExternalMetrics,
  startCluster,
} from '@platform/operator/testing/cluster';
import { type Kubelet, startKubelet } from '@platform/operator/testing/kubelet';
import { parse } from 'yaml';
import { gates } from './daemon-process.ts';
import {
  buildEnds,
  CHECKOUT,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  importEnds,
  postVersion,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

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

let cluster: Cluster;
let server: ServerProcess;
let operator: OperatorProcess;
let kubelet: Kubelet;
let namespace: string;
const { gate, remove } = gates();

before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, server] = await Promise.all([
    startCluster({
      controllers: ['deployment-controller', 'replicaset-controller', 'horizontal-pod-autoscaler-controller'],
      controllerArgs: ['--horizontal-pod-autoscaler-sync-period=1s'],
      scheduler: true,
      forwards: true,
    }),
    startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0' } }),
  ]);
  await firstUser(server);
  await installOperator(cluster);
  await permitExternalMetrics(cluster);
  await createNode(cluster, 'node');
  namespace = await cluster.namespace();
  await cluster.client.create<KubeObject>(SECRETS, {
    metadata: { namespace, name: 'coder-token' },
    data: { token: Buffer.from(server.token).toString('base64') },
  } as KubeObject);
  kubelet = startKubelet({
    client: cluster.client,
    namespace,
    program: CHECKOUT,
    scheduled: true,
    env: {
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    },
  });
  const [port] = (await freePorts(1)) as [number];
  operator = startOperatorProcess(server, [
    ...['--kubeconfig', cluster.kubeconfig, '--context', 'operator'],
    ...['--poll-interval', '200ms', '--external-metrics-address', `127.0.0.1:${port}`],
  ]);
  await registerExternalMetrics(cluster, namespace, port);
});
after(async () => {
  if (operator) assert.equal(await operator.stop(), 0, operator.log());
  await kubelet?.stop();
  await server?.stop();
  await cluster?.stop();
  remove();
});

/** The manifest of the docs. */
function documented(): Autoscaler {
  const text = readFileSync(join(import.meta.dirname, '../docs/kubernetes.md'), 'utf8');
  const block = /```yaml\n(apiVersion: autoscaling\/v2\n[\s\S]*?)```/.exec(text);
  assert.ok(block, 'the docs show a HorizontalPodAutoscaler');
  return parse(block[1]!) as Autoscaler;
}

async function reaches(what: string, look: (status: NonNullable<Provisioner['status']>) => unknown): Promise<string[]> {
  let last: unknown;
  try {
    return await eventually(what, async () => {
      const { status = {} } = await cluster.client.get<Provisioner>(PROVISIONERS, namespace, 'berlin');
      last = status;
      return look(status) ? busyOf(status) : undefined;
    });
  } catch (err) {
    const { status } = await cluster.client.get<Autoscaler>(AUTOSCALERS, namespace, 'berlin');
    const seen = JSON.stringify({ berlin: last, autoscaler: status }, null, 1);
    throw new Error(`${(err as Error).message}\n${seen}\n${operator.log()}`);
  }
}

/** The daemons that run a build. */
const busyOf = ({ daemons = [] }: NonNullable<Provisioner['status']>): string[] =>
  daemons.filter(({ status }) => status === 'busy').map(({ name }) => name);

test('a HorizontalPodAutoscaler follows the queue, and no build is stopped', needsKubernetes, async () => {
  // without replicas, as in the docs: the autoscaler finds how many there are
  await cluster.client.create(PROVISIONERS, {
    metadata: { namespace, name: 'berlin' },
    spec: {
      url: server.url,
      image: 'i',
      bootstrap: { credentialsSecretRef: { name: 'coder-token' } },
      tags: { location: 'berlin' },
    },
  } as unknown as Provisioner);
  const { spec } = documented();
  await cluster.client.create<Autoscaler>(AUTOSCALERS, {
    metadata: { namespace, name: 'berlin' },
    // it waits five minutes by default
    spec: { ...spec, behavior: { scaleDown: { stabilizationWindowSeconds: 0 } } },
  });
  await reaches('its one daemon is registered', ({ phase, replicas }) => phase === 'Ready' && replicas === 1);

  const tags = { location: 'berlin' };
  const doors = ['one', 'two', 'three'].map((name) => ({ name, ...gate(name) }));
  const templates: string[] = [];
  for (const { name, command } of doors) {
    const version = await postVersion(server, commandTemplate(command), { tags });
    assert.equal((await importEnds(server, version.id)).job.status, 'succeeded', operator.log());
    const made = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
      name,
      template_version_id: version.id,
    });
    templates.push(made.body.id);
  }
  const builds: string[] = [];
  for (const [at, { name }] of doors.entries())
    builds.push((await createWorkspace(server, templates[at]!, name)).latest_build.id);
  await reaches('three daemons build', (status) => busyOf(status).length === 3);

  doors[0]!.open();
  doors[1]!.open();
  for (const id of builds.slice(0, 2)) assert.equal((await buildEnds(server, id)).status, 'running');
  const [builder] = await reaches(
    'only the daemon with a build is left',
    (status) => status.replicas === 1 && status.daemons?.length === 1 && busyOf(status).length === 1,
  );
  assert.ok(kubelet.running.has(builder!));
  doors[2]!.open();
  assert.equal((await buildEnds(server, builds[2]!)).status, 'running');
  assert.equal(kubelet.killed, 0, 'every daemon ended by itself');
  const { items } = await cluster.client.list<KubeObject & { spec: { nodeName?: string } }>(PODS, { namespace });
  assert.deepEqual([...new Set(items.map((pod) => pod.spec.nodeName))], ['node']);
});
