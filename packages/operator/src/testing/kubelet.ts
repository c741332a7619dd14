// Plays the nodes of a cluster: it assigns each pod to itself, unless a scheduler does, and runs the first container's command
// as a local process, with the environment that the pod describes. A deleted pod gets SIGTERM and its grace period, as from a
// real kubelet.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1EnvVar, V1PodSpec } from '@kubernetes/client-node';
import { silentLogger } from '@ropewalk/kit';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import { type KubeObject, PODS, SECRETS } from '../kube/types.ts';
import { keyOf, startInformer } from '../machinery/informer.ts';
import { createPodGroup } from './pod-group.ts';

interface Pod extends KubeObject {
  spec: V1PodSpec;
}

interface Running {
  child: ChildProcess;
  dir: string;
  log: string;
  stopping: boolean;
}

export interface Kubelet {
  /** The pods whose process runs, by name. */
  readonly running: ReadonlyMap<string, { log: string }>;
  /** How many processes ended by a signal that they did not handle. */
  readonly killed: number;
  stop(): Promise<void>;
}

export interface KubeletOptions {
  client: KubeClient;
  namespace: string;
  /** The command line that stands for the program in the image. */
  program: readonly string[];
  env?: NodeJS.ProcessEnv;
  /** Whether a scheduler assigns the pods to nodes. Then it waits for that, and plays each node. */
  scheduled?: boolean;
  /** Whether the pods share the processors as on a node, where this process may arrange that. */
  podGroups?: boolean;
  /** The URL on this machine of the port that readiness probes name. Without it, a pod is ready immediately. */
  probed?: string;
}

const CONDITIONS = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'];

export function startKubelet(options: KubeletOptions): Kubelet {
  const { client, namespace, program, env = {}, scheduled = false, podGroups = false, probed } = options;
  const running = new Map<string, Running>();
  const taken = new Set<string>();
  /** The pods that were deleted before their process began. */
  const unwanted = new Set<string>();
  /** The pods whose process has ended. */
  const ended = new Set<string>();
  const work = new Set<Promise<void>>();
  let killed = 0;

  const report = (name: string, phase: string, ready: boolean) =>
    client
      .merge(
        PODS,
        { namespace, name },
        {
          status: {
            phase,
            conditions: CONDITIONS.map((type) => ({
              type,
              status: ready || type === 'PodScheduled' || type === 'Initialized' ? 'True' : 'False',
            })),
          },
        },
        'status',
      )
      .catch(ignoreGone);
  const textOf = async (pod: Pod, { value, valueFrom }: V1EnvVar): Promise<string> => {
    if (valueFrom?.secretKeyRef) {
      const { name = '', key } = valueFrom.secretKeyRef;
      const secret = await client.get<KubeObject & { data: Record<string, string> }>(SECRETS, namespace, name);
      return Buffer.from(secret.data[key]!, 'base64').toString();
    }
    if (valueFrom?.fieldRef?.fieldPath === 'metadata.name') return pod.metadata.name;
    return value ?? '';
  };
  const bind = (name: string) => {
    const binding = { metadata: { name, namespace }, target: { kind: 'Node', name: 'test' } };
    const resource = { group: '', version: 'v1', kind: 'Binding', plural: `pods/${name}/binding` };
    return client.create<KubeObject>(resource, binding);
  };
  const run = async (pod: Pod) => {
    const { name } = pod.metadata;
    if (!scheduled) await bind(name);
    const container = pod.spec.containers[0]!;
    const variables = await Promise.all(
      (container.env ?? []).map(async (each) => [each.name, await textOf(pod, each)] as const),
    );
    const dir = mkdtempSync(join(tmpdir(), 'pod-'));
    const [file, ...first] = program;
    const child = spawn(file!, [...first, ...(container.args ?? [])], {
      cwd: dir,
      env: { PATH: process.env['PATH'], HOME: dir, ...env, ...Object.fromEntries(variables) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const entry: Running = { child, dir, log: '', stopping: false };
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (entry.log += data));
    running.set(name, entry);
    const group = podGroups ? createPodGroup(child.pid!) : undefined;
    const exited = new Promise<number | null>((done) => child.once('exit', (code) => done(code)));
    if (unwanted.has(name)) end(entry);
    const path = container.readinessProbe?.httpGet?.path;
    if (path && probed) void becomesReady(name, `${probed}${path}`, entry);
    else await report(name, 'Running', true);
    const code = await exited;
    if (code === null) killed++;
    running.delete(name);
    ended.add(name);
    // processes that it left may still write
    rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    group?.remove();
    await report(name, code === 0 ? 'Succeeded' : 'Failed', false);
    if (entry.stopping) await removePod(name);
  };
  /** Probes a process until it answers. */
  const becomesReady = async (name: string, url: string, { child }: Running) => {
    await report(name, 'Running', false);
    while (child.exitCode === null && child.signalCode === null) {
      const ok = await fetch(url).then(
        (answer) => answer.ok,
        () => false,
      );
      if (ok) return void (await report(name, 'Running', true));
      await new Promise((done) => setTimeout(done, 100));
    }
  };
  /** Ends a process as a kubelet does, by SIGTERM and, after a while, by SIGKILL. */
  const end = (entry: Running, graceSeconds = 30): void => {
    entry.stopping = true;
    const { child } = entry;
    void terminate(child);
    setTimeout(() => child.kill('SIGKILL'), graceSeconds * 1_000).unref();
  };
  const removePod = (name: string): Promise<void> => client.delete(PODS, namespace, name, 0).catch(ignoreGone);
  const follow = (done: Promise<void>) => {
    work.add(done);
    void done.finally(() => work.delete(done));
  };
  const informer = startInformer<Pod>({
    client,
    resource: PODS,
    scope: { namespace },
    log: silentLogger,
    onChange: (pod) => {
      if (!pod) return;
      const {
        name,
        deletionTimestamp,
        deletionGracePeriodSeconds = 30,
      } = pod.metadata as Pod['metadata'] & {
        deletionGracePeriodSeconds?: number;
      };
      const entry = running.get(name);
      if (deletionTimestamp) {
        if (!taken.has(keyOf(pod))) return follow(removePod(name));
        if (ended.has(name)) follow(removePod(name));
        else if (!entry) unwanted.add(name);
        else if (!entry.stopping) end(entry, deletionGracePeriodSeconds);
        return;
      }
      if (taken.has(keyOf(pod)) || (scheduled && !pod.spec.nodeName)) return;
      taken.add(keyOf(pod));
      follow(
        run(pod).catch((err) => {
          if (!isNotFound(err) && !isConflict(err)) throw err;
          // it was deleted before its process began
          return removePod(name);
        }),
      );
    },
  });
  return {
    running,
    get killed() {
      return killed;
    },
    async stop() {
      await informer.stop();
      for (const { child } of running.values()) child.kill('SIGKILL');
      await Promise.all(work);
    },
  };
}

/** The bit of SIGTERM in the sets of signals of a process. */
const SIGTERM_BIT = 1n << BigInt(constants.signals.SIGTERM - 1);

/** Sends SIGTERM as soon as a process handles it. Without a handler it does not end the first process of a container. */
async function terminate(child: ChildProcess): Promise<void> {
  const handles = () => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      return (BigInt(`0x${/^SigCgt:\s+(\w+)/m.exec(status)![1]}`) & SIGTERM_BIT) !== 0n;
    } catch {
      // ended
      return true;
    }
  };
  while (!handles()) await new Promise((done) => setTimeout(done, 20));
  child.kill('SIGTERM');
}

function ignoreGone(err: unknown): void {
  if (!isNotFound(err) && !isConflict(err)) throw err;
}
