import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { CONTROL_PLANES, type ControlPlane } from '@ropewalk/operator/crd/control-plane';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { JOBS, type KubeObject, PODS, SECRETS, SERVICES } from '@ropewalk/operator/kube/types';
import {
  type Cluster,
  installOperator,
  needsKubernetes,
  startCluster,
  storeSecret,
} from '@ropewalk/operator/testing/cluster';
import { type Kubelet, startKubelet } from '@ropewalk/operator/testing/kubelet';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { parse } from 'yaml';
import {
  buildEnds,
  CHECKOUT,
  type Connection,
  commandTemplate,
  connectTo,
  createWorkspace,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
} from './harness.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

const operatorPackage = join(import.meta.dirname, '../packages/operator');

let cluster: Cluster;
let database: { url: string; drop(): Promise<void> };
let server: Connection;
let operator: OperatorProcess;
let kubelet: Kubelet;
let namespace: string;
let port: number;

before(async () => {
  if (needsKubernetes.skip) return;
  [cluster, database, port] = await Promise.all([
    startCluster({
      controllers: ['deployment-controller', 'replicaset-controller', 'job-controller', 'garbage-collector-controller'],
    }),
    freshDatabase(),
    freePort(),
  ]);
  await installOperator(cluster);
  namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'coder-db-url', { url: database.url });
  const env = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    NODE_OPTIONS: `--import ${join(operatorPackage, 'src/testing/cluster-dns.ts')}`,
  };
  const { HOME: _, ...inPods } = env;
  server = connectTo(`http://127.0.0.1:${port}`);
  kubelet = startKubelet({
    client: cluster.client,
    namespace,
    program: CHECKOUT,
    env: inPods,
    probed: `http://127.0.0.1:${port}`,
  });
  operator = startOperatorProcess({ env }, [
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
  await cluster?.stop();
  await database?.drop();
});

function sampleSpec<Spec>(file: string): Spec {
  return (parse(readFileSync(join(operatorPackage, 'samples', file), 'utf8')) as { spec: Spec }).spec;
}

function ready<T extends ControlPlane | Provisioner>(read: () => Promise<T>): Promise<T> {
  let last: T | undefined;
  return eventually(
    'it is ready',
    async () => {
      last = await read();
      return last.status?.phase === 'Ready' && last;
    },
    60_000,
  ).catch((err: Error) => {
    const pods = [...kubelet.running].map(([pod, { log }]) => `${pod}:\n${log}`);
    throw new Error(`${err.message}\n${JSON.stringify(last?.status, null, 1)}\n${operator.log()}\n${pods.join('\n')}`);
  });
}

test('a control plane starts, its provisioner joins without a person, and builds', needsKubernetes, async () => {
  const { client } = cluster;
  const {
    expose: _,
    replicas: __,
    resources: ___,
    ...spec
  } = sampleSpec<ControlPlane['spec']>('codercontrolplane-production.yaml');
  await client.create(CONTROL_PLANES, {
    metadata: { namespace, name: 'coder' },
    spec: {
      ...spec,
      service: { port },
      extraEnv: [
        { name: 'CODER_HTTP_ADDRESS', value: `127.0.0.1:${port}` },
        { name: 'CODER_PROMETHEUS_ADDRESS', value: '127.0.0.1:0' },
        { name: 'CODER_PPROF_ADDRESS', value: '127.0.0.1:0' },
        { name: 'CODER_PROVISIONER_DAEMONS', value: '0' },
      ],
    },
  } as ControlPlane);
  const plane = await ready(() => client.get<ControlPlane>(CONTROL_PLANES, namespace, 'coder'));
  const { items: jobs } = await client.list<KubeObject & { status: { succeeded?: number } }>(JOBS, { namespace });
  assert.deepEqual(
    jobs.map(({ status }) => status.succeeded),
    [1],
    'the database was migrated once',
  );

  const {
    tags: ____,
    controlPlaneRef: _____,
    ...daemons
  } = sampleSpec<Provisioner['spec']>('coderprovisioner-control-plane.yaml');
  await client.create(PROVISIONERS, {
    metadata: { namespace, name: 'daemons' },
    spec: { ...daemons, controlPlaneRef: { name: 'coder' } },
  } as Provisioner);
  const { status } = await ready(() => client.get<Provisioner>(PROVISIONERS, namespace, 'daemons'));
  assert.equal(status!.controlPlaneURL, plane.status!.url);
  assert.equal(status!.daemons?.[0]?.status, 'idle');

  await firstUser(server);
  const id = await makeTemplate(server, 'first', commandTemplate('true'));
  const { latest_build } = await createWorkspace(server, id, 'first');
  assert.equal((await buildEnds(server, latest_build.id)).status, 'running');

  await client.delete(PROVISIONERS, namespace, 'daemons');
  const keys = () => server.api<unknown[]>('GET', '/organizations/default/provisionerkeys');
  await eventually('the key is gone', async () => (await keys()).body.length === 0);
  await client.delete(CONTROL_PLANES, namespace, 'coder');
  for (const resource of [PODS, SERVICES, JOBS]) {
    await eventually(`no ${resource.plural} are left`, async () => {
      const { items } = await client.list(resource, { namespace });
      return items.length === 0;
    });
  }
  await eventually('the token of the operator is gone', async () => {
    const { items } = await client.list(SECRETS, { namespace });
    return items.length === 1;
  });
  assert.ok(await client.get(SECRETS, namespace, 'coder-db-url'));
});
