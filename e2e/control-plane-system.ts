// A cluster with the operator and a database, in which a test creates control planes. Each pod is a process.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { CONTROL_PLANES, type ControlPlane } from '@ropewalk/operator/crd/control-plane';
import { type Cluster, installOperator, startCluster, storeSecret } from '@ropewalk/operator/testing/cluster';
import { type Kubelet, type KubeletOptions, startKubelet } from '@ropewalk/operator/testing/kubelet';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { eventually, SOURCES } from './harness.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

/** What a pod's program must know of this machine, in place of a cluster's network. */
const DNS = join(import.meta.dirname, '../packages/operator/src/testing/cluster-dns.ts');

export interface ControlPlaneSystem {
  readonly cluster: Cluster;
  readonly operator: OperatorProcess;
  readonly kubelet: Kubelet;
  /** Its Secret `coder-db-url` has the URL of an empty database. */
  readonly namespace: string;
  /** Waits until this object is ready. The error has its status and the logs. */
  ready<T extends { status?: { phase?: string } }>(read: () => Promise<T>): Promise<T>;
  /** Fails if the operator did not end by itself. */
  stop(): Promise<void>;
}

export async function startControlPlaneSystem(
  options: Pick<KubeletOptions, 'probed' | 'podPort'>,
): Promise<ControlPlaneSystem> {
  const controllers = [
    'deployment-controller',
    'replicaset-controller',
    'job-controller',
    'garbage-collector-controller',
  ];
  const [cluster, database] = await Promise.all([startCluster({ controllers }), freshDatabase()]);
  await installOperator(cluster);
  const namespace = await cluster.namespace();
  await storeSecret(cluster, namespace, 'coder-db-url', { url: database.url });
  const inPods = {
    PATH: process.env['PATH'],
    TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    NODE_OPTIONS: `--import ${DNS}`,
  };
  const kubelet = startKubelet({ client: cluster.client, namespace, program: SOURCES, env: inPods, ...options });
  const operator = startOperatorProcess({ env: { ...inPods, HOME: process.env['HOME'] }, program: SOURCES }, [
    ...['--kubeconfig', cluster.kubeconfig, '--context', 'operator', '--poll-interval', '200ms'],
  ]);
  return {
    cluster,
    operator,
    kubelet,
    namespace,
    ready(read) {
      let last: { status?: unknown } | undefined;
      return eventually(
        'it is ready',
        async () => {
          const found = await read();
          last = found;
          return found.status?.phase === 'Ready' && found;
        },
        60_000,
      ).catch((err: Error) => {
        const pods = [...kubelet.running].map(([pod, { log }]) => `${pod}:\n${log}`);
        const status = JSON.stringify(last?.status, null, 1);
        throw new Error(`${err.message}\n${status}\n${operator.log()}\n${pods.join('\n')}`);
      });
    },
    async stop() {
      assert.equal(await operator.stop(), 0, operator.log());
      await kubelet.stop();
      await cluster.stop();
      await database.drop();
    },
  };
}

/** Reads a control plane. */
export const readPlane = ({ cluster, namespace }: ControlPlaneSystem, name: string): Promise<ControlPlane> =>
  cluster.client.get<ControlPlane>(CONTROL_PLANES, namespace, name);
