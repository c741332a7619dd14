import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, WorkspaceBuild } from '@platform/contract';
import { PROVISIONERS, type Provisioner } from '@platform/operator/crd/provisioner';
import { DEPLOYMENTS, JOBS, type KubeObject, PODS, SECRETS } from '@platform/operator/kube/types';
import { type Cluster, installOperator, needsKubernetes, startCluster } from '@platform/operator/testing/cluster';
import { type Kubelet, startKubelet } from '@platform/operator/testing/kubelet';
import { parse } from 'yaml';
import { gates } from './daemon-process.ts';
import {
  type Build,
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

const samples = join(import.meta.dirname, '../packages/operator/samples');

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
      controllers: ['deployment-controller', 'replicaset-controller', 'job-controller', 'garbage-collector-controller'],
    }),
    startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0' } }),
  ]);
  await firstUser(server);
  await installOperator(cluster);
  namespace = await cluster.namespace();
  await cluster.client.create<KubeObject>(SECRETS, {
    metadata: { namespace, name: 'coder-token' },
    data: { token: Buffer.from(server.token).toString('base64') },
  } as KubeObject);
  kubelet = startKubelet({
    client: cluster.client,
    namespace,
    program: CHECKOUT,
    env: {
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    },
  });
  operator = startOperatorProcess(server, [
    '--kubeconfig',
    cluster.kubeconfig,
    '--context',
    'operator',
    '--poll-interval',
    '200ms',
  ]);
});
after(async () => {
  if (operator) assert.equal(await operator.stop(), 0, operator.log());
  await kubelet?.stop();
  await server?.stop();
  await cluster?.stop();
  remove();
});

/** Applies a sample, for this test's server and with these changes of its spec. */
async function applySample(file: string, changes: Partial<Provisioner['spec']> = {}): Promise<Provisioner> {
  const sample = parse(readFileSync(join(samples, file), 'utf8')) as Provisioner;
  const { podTemplate: _, workspacePermissions: __, ...spec } = sample.spec;
  return cluster.client.apply(PROVISIONERS, {
    metadata: { namespace, name: sample.metadata.name },
    spec: { ...spec, url: server.url, ...changes },
  } as Provisioner);
}

const read = (name: string) => cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);

function reaches(name: string, what: string, look: (found: Provisioner) => unknown): Promise<Provisioner> {
  let last: Provisioner | undefined;
  return eventually(what, async () => {
    last = await read(name);
    return look(last) ? last : undefined;
  }).catch((err: Error) => {
    const pods = [...kubelet.running].map(([pod, { log }]) => `${pod}:\n${log}`);
    throw new Error(`${err.message}\n${JSON.stringify(last?.status, null, 1)}\n${operator.log()}\n${pods.join('\n')}`);
  });
}

async function pods(): Promise<KubeObject[]> {
  return (await cluster.client.list(PODS, { namespace })).items;
}

async function template(name: string, command: string, tags: Record<string, string>): Promise<string> {
  const version = await postVersion(server, commandTemplate(command), { tags });
  const { job } = await importEnds(server, version.id);
  assert.equal(job.status, 'succeeded', `${job.error ?? ''}\n${operator.log()}`);
  const made = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
    name,
    template_version_id: version.id,
  });
  return made.body.id;
}

async function build(id: string, name: string): Promise<Build> {
  const { latest_build } = await createWorkspace(server, id, name);
  return buildEnds(server, latest_build.id);
}

const succeeds = async (ending: Promise<Build>) => {
  const { status, job } = await ending;
  assert.equal(status, 'running', `${job.error ?? ''}\n${operator.log()}`);
};

test('applied daemons register with the server and build', needsKubernetes, async () => {
  await applySample('coderprovisioner.yaml');
  const { status } = await reaches('berlin', 'both are registered', ({ status }) => status?.phase === 'Ready');
  assert.equal(status?.readyReplicas, 2);
  assert.deepEqual(
    status?.daemons?.map((daemon) => daemon.status),
    ['idle', 'idle'],
  );
  await succeeds(build(await template('regional', 'true', { location: 'berlin' }), 'regional'));

  // another scaler, or a person, wants fewer: the daemon without a build goes
  const { command, open } = gate('regional');
  const slow = await createWorkspace(server, await template('gated', command, { location: 'berlin' }), 'slow-regional');
  // the operator may still know another one as busy, with the import
  const builder = await eventually('a daemon takes the build', async () => {
    const { body: build } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${slow.latest_build.id}`);
    const { body: daemons } = await server.api<ProvisionerDaemon[]>('GET', '/organizations/default/provisionerdaemons');
    return daemons.find(({ id }) => id === build.job.worker_id)?.name;
  });
  await reaches('berlin', 'the operator knows that it builds', ({ status }) =>
    status?.daemons?.some(({ name, status: is }) => name === builder && is === 'busy'),
  );
  await cluster.client.merge(PROVISIONERS, { namespace, name: 'berlin' }, { spec: { replicas: 1 } });
  const left = await reaches(
    'berlin',
    'one daemon is left',
    ({ status }) => status?.replicas === 1 && status.daemons?.length === 1,
  );
  assert.equal(left.status!.daemons![0]!.name, builder);
  const { metadata } = await cluster.client.get<KubeObject>(PODS, namespace, builder);
  assert.equal(metadata.annotations?.['controller.kubernetes.io/pod-deletion-cost'], '1');
  open();
  await succeeds(buildEnds(server, slow.latest_build.id));

  await cluster.client.delete(PROVISIONERS, namespace, 'berlin');
  await eventually('the pods are gone', async () => (await pods()).length === 0);
  const { body: keys } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  assert.deepEqual(keys, []);
});

test('the queue scales daemons from zero and back, and no build is stopped', needsKubernetes, async () => {
  await applySample('coderprovisioner-autoscaling.yaml', {
    autoscaling: { minReplicas: 0, maxReplicas: 3, idleSeconds: 1, mode: 'Deployment' },
  });
  await reaches('elastic', 'no daemon is needed', ({ status }) => status?.phase === 'Ready' && status.replicas === 0);
  // the import of the template is the first job in the queue
  const { command, open } = gate('elastic');
  const id = await template('elastic', command, { size: 'large' });
  const slow = await createWorkspace(server, id, 'slow');
  const other = await createWorkspace(server, id, 'other');
  await reaches(
    'elastic',
    'two daemons build',
    ({ status }) => (status?.daemons ?? []).filter((daemon) => daemon.status === 'busy').length === 2,
  );
  // one build ends, and the surplus daemon goes while the other build runs
  await server.api('PATCH', `/workspacebuilds/${other.latest_build.id}/cancel`);
  const shrunk = await reaches(
    'elastic',
    'one daemon is left',
    ({ status }) => status?.replicas === 1 && status.daemons?.length === 1,
  );
  assert.equal(shrunk.status?.daemons?.[0]?.status, 'busy', 'the daemon with the build stays');
  open();
  await succeeds(buildEnds(server, slow.latest_build.id));
  await reaches('elastic', 'it is back at zero', ({ status }) => status?.replicas === 0 && status.phase === 'Ready');
  assert.equal(kubelet.killed, 0, 'every daemon ended by itself');
  const { spec } = await cluster.client.get<KubeObject & { spec: { replicas: number } }>(
    DEPLOYMENTS,
    namespace,
    'elastic-provisioner',
  );
  assert.equal(spec.replicas, 0);
});

test('changed tags replace the key while a build with the old one runs', needsKubernetes, async () => {
  await applySample('coderprovisioner.yaml', { replicas: 1, tags: { generation: 'first' } });
  const before = await reaches('berlin', 'it is registered', ({ status }) => status?.phase === 'Ready');
  const old = before.status!.provisionerKeyName!;
  const { command, open } = gate('rotated');
  const id = await template('rotated', command, { generation: 'first' });
  const running = await createWorkspace(server, id, 'rotated');
  await reaches('berlin', 'it builds', ({ status }) => status?.daemons?.[0]?.status === 'busy');
  await applySample('coderprovisioner.yaml', { replicas: 1, tags: { generation: 'second' } });
  await reaches(
    'berlin',
    'a daemon with the new key is registered',
    ({ status }) => status?.provisionerKeyName !== old && status?.daemons?.some((daemon) => daemon.status === 'idle'),
  );
  open();
  await succeeds(buildEnds(server, running.latest_build.id));
  const settled = await reaches('berlin', 'the old key is deleted', ({ status }) => status?.retiredKeys === undefined);
  const { body: keys } = await server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  assert.ok(!keys.some(({ name }) => name === old));
  assert.ok(keys.some(({ name }) => name === settled.status!.provisionerKeyName));
  await cluster.client.delete(PROVISIONERS, namespace, 'berlin');
});

test('in the mode Job each build has a pod of its own', needsKubernetes, async () => {
  await applySample('coderprovisioner-job.yaml');
  await reaches('isolated', 'no daemon is needed', ({ status }) => status?.phase === 'Ready');
  const id = await template('isolated', 'true', { isolation: 'pod' });
  await Promise.all([succeeds(build(id, 'one')), succeeds(build(id, 'two'))]);
  await eventually('every Job is complete', async () => {
    const { items } = await cluster.client.list<KubeObject & { status?: { succeeded?: number } }>(JOBS, { namespace });
    return items.length === 3 && items.every(({ status }) => status?.succeeded === 1);
  });
});
