// The operator with many resources, and with many jobs, on a real API server and a real server of this project.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { ProvisionerDaemon } from '@ropewalk/contract';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import { installOperator, startCluster, storeSecret } from '@ropewalk/operator/testing/cluster';
import { startTestServer } from '@ropewalk/testkit/server';
import { commandTemplate, ensureExecutable, eventually, postVersion } from '../e2e/harness.ts';
import { startOperatorSystem } from '../e2e/operator-system.ts';
import { pssMegabytes, type Row } from './measure.ts';

const COUNT = Number(process.env['OPERATOR_BENCH_COUNT'] ?? 1_000);
const STEADY_MS = 15_000;
const DAEMONS = 20;

const row = (what: string, value: number, unit: string, most: number): Row => ({
  what,
  ours: `${Number(value.toFixed(1))}${unit}`,
  floor: '–',
  figure: '–',
  reach: `≤ ${most}${unit}`,
  met: value <= most,
});

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** The operator on a real API server and a real server. Needs KUBERNETES: see scripts/build-kubernetes.sh. */
export async function benchOperator(): Promise<Row[]> {
  return [...(await benchMany()), await benchScaleOut()];
}

/** How long many new resources take, and what the operator costs. */
async function benchMany(): Promise<Row[]> {
  const [cluster, server] = await Promise.all([startCluster({ audit: true }), startTestServer()]);
  let operator: ChildProcess | undefined;
  try {
    await installOperator(cluster);
    const namespace = await cluster.namespace();
    const { client } = cluster;
    await storeSecret(cluster, namespace, 'token', { token: server.adminToken });
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
    // the lists and watches of the operator's start are the same for any number of provisioners, and many share one look at
    // the Secret with the token
    const calls = cluster
      .auditLog()
      .filter(({ verb, resource }) => resource !== 'leases' && verb !== 'list' && verb !== 'watch').length;
    await pause(5_000);
    const before = cluster.auditLog().filter(({ resource }) => resource !== 'leases').length;
    await pause(STEADY_MS);
    const steady = cluster.auditLog().filter(({ resource }) => resource !== 'leases').length - before;
    return [
      row(`reconcile ${COUNT} new provisioners`, seconds, ' s', 60),
      row(
        'requests to the API server for each, in addition to lists and watches',
        Math.round((10 * calls) / COUNT) / 10,
        '',
        6,
      ),
      row(`requests in ${STEADY_MS / 1_000} s without a change`, steady, '', 0),
      row('memory of the operator with them, at rest', pssMegabytes(operator.pid!), ' MB', 150),
    ];
  } finally {
    operator?.kill('SIGKILL');
    await server.stop();
    await cluster.stop();
  }
}

/** How long it takes until as many daemons are registered as jobs are posted. Each daemon is a process on this machine. */
async function benchScaleOut(): Promise<Row> {
  // as in the image
  const program = [await ensureExecutable()];
  const { cluster, server, kubelet, namespace, read, stop } = await startOperatorSystem({
    controllers: ['deployment-controller', 'replicaset-controller'],
    serverEnv: { CODER_VERBOSE: 'false' },
    pollInterval: '2s',
    podGroups: true,
    program,
  });
  try {
    await cluster.client.create(PROVISIONERS, {
      metadata: { namespace, name: 'elastic' },
      spec: {
        url: server.url,
        image: 'i',
        tags: { size: 'large' },
        bootstrap: { credentialsSecretRef: { name: 'coder-token' } },
        autoscaling: { minReplicas: 0, maxReplicas: DAEMONS },
      },
    } as unknown as Provisioner);
    await eventually('it waits for jobs', async () => (await read('elastic')).status?.phase === 'Ready');
    const began = performance.now();
    await Promise.all(
      Array.from({ length: DAEMONS }, () => postVersion(server, commandTemplate('true'), { tags: { size: 'large' } })),
    );
    const registered = new Set<string>();
    let startedMs = 0;
    while (registered.size < DAEMONS) {
      if (performance.now() - began > 120_000) throw new Error(`${registered.size} daemons after 120 s`);
      await pause(100);
      if (startedMs === 0 && kubelet.running.size === DAEMONS) startedMs = performance.now() - began;
      const { body } = await server.api<ProvisionerDaemon[]>('GET', '/organizations/default/provisionerdaemons');
      for (const { id } of body) registered.add(id);
    }
    const seconds = (performance.now() - began) / 1_000;
    const figure = `${(startedMs / 1_000).toFixed(1)} s until their processes started`;
    return { ...row(`0 → ${DAEMONS} daemons for ${DAEMONS} jobs, from the first post`, seconds, ' s', 5), figure };
  } finally {
    await stop();
  }
}
