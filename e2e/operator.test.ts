import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, WorkspaceBuild } from '@ropewalk/contract';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { DEPLOYMENTS, JOBS, type KubeObject, PODS } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { parse } from 'yaml';
import { gates } from './daemon-process.ts';
import { type Build, buildEnds, createWorkspace, eventually } from './harness.ts';
import { type OperatorSystem, startOperatorSystem } from './operator-system.ts';

const samples = join(import.meta.dirname, '../packages/operator/samples');

let system: OperatorSystem;
const { gate, remove } = gates();

before(async () => {
  if (needsKubernetes.skip) return;
  system = await startOperatorSystem({
    controllers: ['deployment-controller', 'replicaset-controller', 'job-controller', 'garbage-collector-controller'],
  });
});
after(async () => {
  await system?.stop();
  remove();
});

/** Applies a sample, for this test's server and with these changes of its spec. */
async function applySample(file: string, changes: Partial<Provisioner['spec']> = {}): Promise<Provisioner> {
  const sample = parse(readFileSync(join(samples, file), 'utf8')) as Provisioner;
  const { podTemplate: _, workspacePermissions: __, ...spec } = sample.spec;
  return system.cluster.client.apply(PROVISIONERS, {
    metadata: { namespace: system.namespace, name: sample.metadata.name },
    spec: { ...spec, url: system.server.url, ...changes },
  } as Provisioner);
}

async function build(id: string, name: string): Promise<Build> {
  const { latest_build } = await createWorkspace(system.server, id, name);
  return buildEnds(system.server, latest_build.id);
}

const succeeds = async (ending: Promise<Build>) => {
  const { status, job } = await ending;
  assert.equal(status, 'running', `${job.error ?? ''}\n${system.operator.log()}`);
};

test('applied daemons register with the server and build', needsKubernetes, async () => {
  await applySample('coderprovisioner.yaml');
  const { status } = await system.reaches('berlin', 'both are registered', ({ status }) => status?.phase === 'Ready');
  assert.equal(status?.readyReplicas, 2);
  assert.deepEqual(
    status?.daemons?.map((daemon) => daemon.status),
    ['idle', 'idle'],
  );
  await succeeds(build(await system.template('regional', 'true', { location: 'berlin' }), 'regional'));

  // another scaler, or a person, wants fewer: the daemon without a build goes
  const { command, open } = gate('regional');
  const slow = await createWorkspace(
    system.server,
    await system.template('gated', command, { location: 'berlin' }),
    'slow-regional',
  );
  // the operator may still know another one as busy, with the import
  const builder = await eventually('a daemon takes the build', async () => {
    const { body: build } = await system.server.api<WorkspaceBuild>('GET', `/workspacebuilds/${slow.latest_build.id}`);
    const { body: daemons } = await system.server.api<ProvisionerDaemon[]>(
      'GET',
      '/organizations/default/provisionerdaemons',
    );
    return daemons.find(({ id }) => id === build.job.worker_id)?.name;
  });
  await system.reaches('berlin', 'the operator knows that it builds', ({ status }) =>
    status?.daemons?.some(({ name, status: is }) => name === builder && is === 'busy'),
  );
  await system.cluster.client.merge(
    PROVISIONERS,
    { namespace: system.namespace, name: 'berlin' },
    { spec: { replicas: 1 } },
  );
  const left = await system.reaches(
    'berlin',
    'one daemon is left',
    ({ status }) => status?.replicas === 1 && status.daemons?.length === 1,
  );
  assert.equal(left.status!.daemons![0]!.name, builder);
  const { metadata } = await system.cluster.client.get<KubeObject>(PODS, system.namespace, builder);
  assert.equal(metadata.annotations?.['controller.kubernetes.io/pod-deletion-cost'], '1');
  open();
  await succeeds(buildEnds(system.server, slow.latest_build.id));

  await system.cluster.client.delete(PROVISIONERS, system.namespace, 'berlin');
  await eventually('the pods are gone', async () => {
    const { items } = await system.cluster.client.list(PODS, { namespace: system.namespace });
    return items.length === 0;
  });
  const { body: keys } = await system.server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  assert.deepEqual(keys, []);
});

test('the queue scales daemons from zero and back, and no build is stopped', needsKubernetes, async () => {
  await applySample('coderprovisioner-autoscaling.yaml', {
    autoscaling: { minReplicas: 0, maxReplicas: 3, idleSeconds: 1, mode: 'Deployment' },
  });
  await system.reaches(
    'elastic',
    'no daemon is needed',
    ({ status }) => status?.phase === 'Ready' && status.replicas === 0,
  );
  // the import of the template is the first job in the queue
  const { command, open } = gate('elastic');
  const id = await system.template('elastic', command, { size: 'large' });
  const slow = await createWorkspace(system.server, id, 'slow');
  const other = await createWorkspace(system.server, id, 'other');
  await system.reaches(
    'elastic',
    'two daemons build',
    ({ status }) => (status?.daemons ?? []).filter((daemon) => daemon.status === 'busy').length === 2,
  );
  // one build ends, and the surplus daemon goes while the other build runs
  await system.server.api('PATCH', `/workspacebuilds/${other.latest_build.id}/cancel`);
  const shrunk = await system.reaches(
    'elastic',
    'one daemon is left',
    ({ status }) => status?.replicas === 1 && status.daemons?.length === 1,
  );
  assert.equal(shrunk.status?.daemons?.[0]?.status, 'busy', 'the daemon with the build stays');
  open();
  await succeeds(buildEnds(system.server, slow.latest_build.id));
  await system.reaches(
    'elastic',
    'it is back at zero',
    ({ status }) => status?.replicas === 0 && status.phase === 'Ready',
  );
  assert.equal(system.kubelet.killed, 0, 'every daemon ended by itself');
  const { spec } = await system.cluster.client.get<KubeObject & { spec: { replicas: number } }>(
    DEPLOYMENTS,
    system.namespace,
    'elastic-provisioner',
  );
  assert.equal(spec.replicas, 0);
});

test('changed tags replace the key while a build with the old one runs', needsKubernetes, async () => {
  await applySample('coderprovisioner.yaml', { replicas: 1, tags: { generation: 'first' } });
  const before = await system.reaches('berlin', 'it is registered', ({ status }) => status?.phase === 'Ready');
  const old = before.status!.provisionerKeyName!;
  const { command, open } = gate('rotated');
  const id = await system.template('rotated', command, { generation: 'first' });
  const running = await createWorkspace(system.server, id, 'rotated');
  await system.reaches('berlin', 'it builds', ({ status }) => status?.daemons?.[0]?.status === 'busy');
  await applySample('coderprovisioner.yaml', { replicas: 1, tags: { generation: 'second' } });
  await system.reaches(
    'berlin',
    'a daemon with the new key is registered',
    ({ status }) => status?.provisionerKeyName !== old && status?.daemons?.some((daemon) => daemon.status === 'idle'),
  );
  open();
  await succeeds(buildEnds(system.server, running.latest_build.id));
  const settled = await system.reaches(
    'berlin',
    'the old key is deleted',
    ({ status }) => status?.retiredKeys === undefined,
  );
  const { body: keys } = await system.server.api<{ name: string }[]>('GET', '/organizations/default/provisionerkeys');
  assert.ok(!keys.some(({ name }) => name === old));
  assert.ok(keys.some(({ name }) => name === settled.status!.provisionerKeyName));
  await system.cluster.client.delete(PROVISIONERS, system.namespace, 'berlin');
});

test('in the mode Job each build has a separate pod', needsKubernetes, async () => {
  await applySample('coderprovisioner-job.yaml');
  await system.reaches('isolated', 'no daemon is needed', ({ status }) => status?.phase === 'Ready');
  const id = await system.template('isolated', 'true', { isolation: 'pod' });
  await Promise.all([succeeds(build(id, 'one')), succeeds(build(id, 'two'))]);
  await eventually('every Job is complete', async () => {
    const { items } = await system.cluster.client.list<KubeObject & { status?: { succeeded?: number } }>(JOBS, {
      namespace: system.namespace,
    });
    return items.length === 3 && items.every(({ status }) => status?.succeeded === 1);
  });
});
