import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { CONTROL_PLANES, type ControlPlane } from '@ropewalk/operator/crd/control-plane';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { JOBS, type KubeObject, PODS, SECRETS, SERVICES } from '@ropewalk/operator/kube/types';
import { needsKubernetes } from '@ropewalk/operator/testing/cluster';
import { parse } from 'yaml';
import { type ControlPlaneSystem, readPlane, startControlPlaneSystem } from './control-plane-system.ts';
import {
  buildEnds,
  type Connection,
  commandTemplate,
  connectTo,
  createWorkspace,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
} from './harness.ts';

const operatorPackage = join(import.meta.dirname, '../packages/operator');

let system: ControlPlaneSystem;
let server: Connection;
let port: number;

before(async () => {
  if (needsKubernetes.skip) return;
  port = await freePort();
  server = connectTo(`http://127.0.0.1:${port}`);
  system = await startControlPlaneSystem({ probed: `http://127.0.0.1:${port}` });
});
after(() => system?.stop());

function sampleSpec<Spec>(file: string): Spec {
  return (parse(readFileSync(join(operatorPackage, 'samples', file), 'utf8')) as { spec: Spec }).spec;
}

test('a control plane starts, its provisioner joins without a person, and builds', needsKubernetes, async () => {
  const { cluster, namespace, ready } = system;
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
  const plane = await ready(() => readPlane(system, 'coder'));
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
