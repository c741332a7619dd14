// A cluster with the operator, a server without its own daemons, and a process for each pod.
import assert from 'node:assert/strict';
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import { PROVISIONERS, type Provisioner } from '@ropewalk/operator/crd/provisioner';
import {
  type Cluster,
  type ClusterOptions,
  createNode,
  installOperator,
  permitExternalMetrics,
  registerExternalMetrics,
  startCluster,
  storeSecret,
} from '@ropewalk/operator/testing/cluster';
import { type Kubelet, type KubeletOptions, startKubelet } from '@ropewalk/operator/testing/kubelet';
import { freePorts } from '@ropewalk/testkit/ports';
import {
  commandTemplate,
  eventually,
  firstUser,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

export interface OperatorSystemOptions
  extends Pick<ClusterOptions, 'controllers' | 'controllerArgs' | 'scheduler'>,
    Pick<KubeletOptions, 'podGroups' | 'probed'> {
  /** The command line that stands for the program in the image. Default: PROGRAM. */
  program?: readonly string[];
  /** Additional variables of the server. */
  serverEnv?: NodeJS.ProcessEnv;
  /** How often the operator asks the server for its queue. */
  pollInterval?: string;
  /** Whether the operator serves the external metrics API, and the API server forwards requests to it. */
  externalMetrics?: boolean;
}

export interface OperatorSystem {
  readonly cluster: Cluster;
  readonly server: ServerProcess;
  readonly operator: OperatorProcess;
  readonly kubelet: Kubelet;
  /** The namespace whose pods run. Its Secret `coder-token` has the token of the server's first user. */
  readonly namespace: string;
  read(provisioner: string): Promise<Provisioner>;
  /** Waits until a provisioner looks like this. The error has its status and the logs. */
  reaches(provisioner: string, what: string, look: (found: Provisioner) => unknown): Promise<Provisioner>;
  /** Imports a template whose builds run this command, by a daemon with these tags, and returns its id. */
  template(name: string, command: string, tags: Record<string, string>): Promise<string>;
  /** Fails if the operator did not end by itself. */
  stop(): Promise<void>;
}

export async function startOperatorSystem({
  program = PROGRAM,
  serverEnv = {},
  pollInterval = '200ms',
  externalMetrics = false,
  podGroups = false,
  probed,
  ...options
}: OperatorSystemOptions): Promise<OperatorSystem> {
  const [cluster, server] = await Promise.all([
    startCluster({ ...options, forwards: externalMetrics }),
    startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0', ...serverEnv } }),
  ]);
  const running: { kubelet?: Kubelet; operator?: OperatorProcess } = {};
  const stop = async () => {
    const code = await running.operator?.stop();
    await running.kubelet?.stop();
    await server.stop();
    await cluster.stop();
    if (running.operator) assert.equal(code, 0, running.operator.log());
  };
  try {
    await firstUser(server);
    await installOperator(cluster);
    if (options.scheduler) await createNode(cluster, 'node');
    const namespace = await cluster.namespace();
    await storeSecret(cluster, namespace, 'coder-token', { token: server.token });
    const kubelet = startKubelet({
      client: cluster.client,
      namespace,
      program,
      podGroups,
      ...(probed ? { probed } : {}),
      scheduled: options.scheduler ?? false,
      env: {
        ...ALLOCATOR, // as in the image
        TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      },
    });
    running.kubelet = kubelet;
    const [port] = (await freePorts(1)) as [number];
    if (externalMetrics) await permitExternalMetrics(cluster);
    const operator = startOperatorProcess(server, [
      ...['--kubeconfig', cluster.kubeconfig, '--context', 'operator', '--poll-interval', pollInterval],
      ...(externalMetrics ? ['--external-metrics-address', `127.0.0.1:${port}`] : []),
    ]);
    running.operator = operator;
    if (externalMetrics) await registerExternalMetrics(cluster, namespace, port);
    const read = (name: string) => cluster.client.get<Provisioner>(PROVISIONERS, namespace, name);
    return {
      cluster,
      server,
      operator,
      kubelet,
      namespace,
      read,
      reaches(name, what, look) {
        let last: Provisioner | undefined;
        return eventually(what, async () => {
          last = await read(name);
          return look(last) ? last : undefined;
        }).catch((err: Error) => {
          const pods = [...kubelet.running].map(([pod, { log }]) => `${pod}:\n${log}`);
          const status = JSON.stringify(last?.status, null, 1);
          throw new Error(`${err.message}\n${status}\n${operator.log()}\n${pods.join('\n')}`);
        });
      },
      template: (name, command, tags) =>
        makeTemplate(server, name, commandTemplate(command), { tags }).catch((err: Error) => {
          throw new Error(`${err.message}\n${operator.log()}`);
        }),
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}
