// The operator with many resources, on a real API server and a real server of this project.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { PROVISIONERS, type Provisioner } from '@platform/operator/crd/provisioner';
import { type KubeObject, SECRETS } from '@platform/operator/kube/types';
import { installOperator, startCluster } from '@platform/operator/testing/cluster';
import { startTestServer } from '@platform/testkit/server';
import { pssMegabytes, type Row } from './measure.ts';

const COUNT = Number(process.env['OPERATOR_BENCH_COUNT'] ?? 1_000);
const STEADY_MS = 15_000;

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** How long many new resources take, and what the operator costs. Needs KUBERNETES: see scripts/build-kubernetes.sh. */
export async function benchOperator(): Promise<Row[]> {
  const [cluster, server] = await Promise.all([startCluster({ audit: true }), startTestServer()]);
  let operator: ChildProcess | undefined;
  try {
    await installOperator(cluster);
    const namespace = await cluster.namespace();
    const { client } = cluster;
    await client.create<KubeObject & { data: object }>(SECRETS, {
      metadata: { namespace, name: 'token' },
      data: { token: Buffer.from(server.adminToken).toString('base64') },
    });
    const spec = { url: server.url, image: 'i', replicas: 0, bootstrap: { credentialsSecretRef: { name: 'token' } } };
    for (let at = 0; at < COUNT; at += 20) {
      const some = Array.from({ length: Math.min(20, COUNT - at) }, (_, i) => `p-${at + i}`);
      await Promise.all(
        some.map((name) => client.create(PROVISIONERS, { metadata: { namespace, name }, spec } as Provisioner)),
      );
    }
    const began = performance.now();
    const { folder, env } = cluster.podAccount();
    operator = spawn(process.execPath, [join(import.meta.dirname, 'operator-pod.ts'), folder], {
      env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'], ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    for (;;) {
      await pause(2_000);
      const { items } = await client.list<Provisioner>(PROVISIONERS, {});
      if (items.every(({ status }) => status?.phase === 'Ready')) break;
      if (performance.now() - began > 300_000) throw new Error('not reconciled after 300 s');
    }
    const seconds = (performance.now() - began) / 1_000;
    const calls = cluster.auditLog().filter(({ resource }) => resource !== 'leases').length;
    await pause(5_000);
    const before = cluster.auditLog().filter(({ resource }) => resource !== 'leases').length;
    await pause(STEADY_MS);
    const steady = cluster.auditLog().filter(({ resource }) => resource !== 'leases').length - before;
    const row = (what: string, value: number, unit: string, most: number): Row => ({
      what,
      ours: `${Number(value.toFixed(1))}${unit}`,
      floor: '–',
      figure: '–',
      reach: `≤ ${most}${unit}`,
      met: value <= most,
    });
    return [
      row(`reconcile ${COUNT} new provisioners`, seconds, ' s', 60),
      row('requests to the API server for each', calls / COUNT, '', 6),
      row(`requests in ${STEADY_MS / 1_000} s without a change`, steady, '', 0),
      row('memory of the operator with them, at rest', pssMegabytes(operator.pid!), ' MB', 150),
    ];
  } finally {
    operator?.kill('SIGKILL');
    await server.stop();
    await cluster.stop();
  }
}
