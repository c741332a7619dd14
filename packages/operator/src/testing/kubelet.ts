// Plays the nodes of a cluster: it assigns each pod to itself, unless a scheduler does, and runs the first container's command
// as a local process, with the environment that the pod describes. A deleted pod runs its preStop hook, and gets SIGTERM and
// its grace period, as from a real kubelet.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1EnvVar, V1PodSpec } from '@kubernetes/client-node';
import { silentLogger } from '@ropewalk/kit';
import { answers } from '@ropewalk/testkit/wait';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import { type KubeObject, PODS, SECRETS } from '../kube/types.ts';
import { type Informer, keyOf, startInformer } from '../machinery/informer.ts';
import { createPodGroup } from './pod-group.ts';

interface Pod extends KubeObject {
  spec: V1PodSpec;
}

interface Running {
  pod: Pod;
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
  /** Gives each pod an own address, at whose port the program must listen. Readiness probes go there. */
  podPort?: number;
}

const CONDITIONS = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'];

export function startKubelet(options: KubeletOptions): Kubelet {
  return new LocalKubelet(options);
}

class LocalKubelet implements Kubelet {
  readonly running = new Map<string, Running>();
  readonly #options: KubeletOptions;
  readonly #client: KubeClient;
  readonly #namespace: string;
  /** The keys of the pods that it has begun to run. */
  readonly #taken = new Set<string>();
  /** The pods that were deleted before their process began. */
  readonly #unwanted = new Set<string>();
  /** The addresses of pods, by name. */
  readonly #addresses = new Map<string, string>();
  /** The pods whose process has ended. */
  readonly #ended = new Set<string>();
  readonly #work = new Set<Promise<void>>();
  readonly #informer: Informer<Pod>;
  #killed = 0;

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.#client = options.client;
    this.#namespace = options.namespace;
    this.#informer = startInformer<Pod>({
      client: this.#client,
      resource: PODS,
      scope: { namespace: this.#namespace },
      log: silentLogger,
      onChange: (pod) => pod && this.#onPod(pod),
    });
  }

  get killed(): number {
    return this.#killed;
  }

  async stop(): Promise<void> {
    await this.#informer.stop();
    for (const { child } of this.running.values()) child.kill('SIGKILL');
    await Promise.all(this.#work);
  }

  #onPod(pod: Pod): void {
    if (pod.metadata.deletionTimestamp) this.#onDeletion(pod);
    else if (!this.#taken.has(keyOf(pod)) && (!this.#options.scheduled || pod.spec.nodeName)) this.#take(pod);
  }

  #onDeletion(pod: Pod): void {
    const { name, deletionGracePeriodSeconds = 30 } = pod.metadata as Pod['metadata'] & {
      deletionGracePeriodSeconds?: number;
    };
    const entry = this.running.get(name);
    if (!this.#taken.has(keyOf(pod)) || this.#ended.has(name)) this.#follow(this.#removePod(name));
    else if (!entry) this.#unwanted.add(name);
    else if (!entry.stopping) end(entry, deletionGracePeriodSeconds);
  }

  #take(pod: Pod): void {
    this.#taken.add(keyOf(pod));
    this.#follow(
      this.#run(pod).catch((err) => {
        if (!isNotFound(err) && !isConflict(err)) throw err;
        // it was deleted before its process began
        return this.#removePod(pod.metadata.name);
      }),
    );
  }

  /** Keeps work that `stop` waits for. */
  #follow(done: Promise<void>): void {
    this.#work.add(done);
    void done.finally(() => this.#work.delete(done));
  }

  /** Runs a pod from its assignment to a node until its process has ended. */
  async #run(pod: Pod): Promise<void> {
    const { name } = pod.metadata;
    const { probed, podPort } = this.#options;
    if (!this.#options.scheduled) await this.#bind(name);
    const address = this.#addressOf(name);
    const entry = await this.#startProcess(pod);
    const { child, dir } = entry;
    this.running.set(name, entry);
    const group = this.#options.podGroups ? createPodGroup(child.pid!) : undefined;
    const exited = new Promise<number | null>((done) => child.once('exit', (code) => done(code)));
    if (this.#unwanted.has(name)) end(entry);
    const path = pod.spec.containers[0]!.readinessProbe?.httpGet?.path;
    const base = address ? `http://${address}:${podPort}` : probed;
    if (path && base) void this.#becomesReady(name, `${base}${path}`, entry);
    else await this.#report(name, 'Running', true);
    const code = await exited;
    if (code === null) this.#killed++;
    this.running.delete(name);
    this.#ended.add(name);
    // processes that it left may still write
    rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    group?.remove();
    await this.#report(name, code === 0 ? 'Succeeded' : 'Failed', false);
    if (entry.stopping) await this.#removePod(name);
  }

  async #startProcess(pod: Pod): Promise<Running> {
    const { program, env = {} } = this.#options;
    const container = pod.spec.containers[0]!;
    const variables: Record<string, string> = {};
    for (const each of container.env ?? []) {
      const text = await this.#textOf(pod, each);
      variables[each.name] = text.replaceAll(/\$\((\w+)\)/g, (reference, name) => variables[name] ?? reference);
    }
    const dir = mkdtempSync(join(tmpdir(), 'pod-'));
    const [file, ...first] = program;
    const child = spawn(file!, [...first, ...(container.args ?? [])], {
      cwd: dir,
      env: { PATH: process.env['PATH'], HOME: dir, ...env, ...variables },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const entry: Running = { pod, child, dir, log: '', stopping: false };
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (entry.log += data));
    return entry;
  }

  async #textOf(pod: Pod, { value, valueFrom }: V1EnvVar): Promise<string> {
    if (valueFrom?.secretKeyRef) {
      const { name = '', key } = valueFrom.secretKeyRef;
      const secret = await this.#client.get<KubeObject & { data: Record<string, string> }>(
        SECRETS,
        this.#namespace,
        name,
      );
      return Buffer.from(secret.data[key]!, 'base64').toString();
    }
    if (valueFrom?.fieldRef?.fieldPath === 'metadata.name') return pod.metadata.name;
    if (valueFrom?.fieldRef?.fieldPath === 'status.podIP') return this.#addressOf(pod.metadata.name) ?? '127.0.0.1';
    return value ?? '';
  }

  /** An address of this machine that no other pod has. Undefined if pods have none. */
  #addressOf(name: string): string | undefined {
    if (this.#options.podPort === undefined) return undefined;
    const address = this.#addresses.get(name) ?? `127.${randomInt(1, 255)}.${randomInt(255)}.${randomInt(1, 255)}`;
    this.#addresses.set(name, address);
    return address;
  }

  /** Probes a process until it answers. */
  async #becomesReady(name: string, url: string, { child }: Running): Promise<void> {
    await this.#report(name, 'Running', false);
    while (child.exitCode === null && child.signalCode === null) {
      if (await answers(url)) return void (await this.#report(name, 'Running', true));
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  async #bind(name: string): Promise<void> {
    const binding = { metadata: { name, namespace: this.#namespace }, target: { kind: 'Node', name: 'test' } };
    const resource = { group: '', version: 'v1', kind: 'Binding', plural: `pods/${name}/binding` };
    await this.#client.create<KubeObject>(resource, binding);
  }

  async #report(name: string, phase: string, ready: boolean): Promise<void> {
    // each report is a change; a Deployment with minReadySeconds counts from here, and never counts a pod without it
    const lastTransitionTime = new Date().toISOString();
    const conditions = CONDITIONS.map((type) => ({
      type,
      status: ready || type === 'PodScheduled' || type === 'Initialized' ? 'True' : 'False',
      lastTransitionTime,
    }));
    const at = { namespace: this.#namespace, name };
    const podIP = this.#addressOf(name);
    const status = { phase, conditions, ...(podIP ? { podIP, podIPs: [{ ip: podIP }] } : {}) };
    await this.#client.merge(PODS, at, { status }, 'status').catch(ignoreGone);
  }

  #removePod(name: string): Promise<void> {
    return this.#client.delete(PODS, this.#namespace, name, 0).catch(ignoreGone);
  }
}

/** Ends a process as a kubelet does: after the preStop hook by SIGTERM and, after a while, by SIGKILL. */
function end(entry: Running, graceSeconds = 30): void {
  entry.stopping = true;
  const { child, pod } = entry;
  const [file, ...args] = pod.spec.containers[0]!.lifecycle?.preStop?.exec?.command ?? [];
  if (file) execFile(file, args, () => void terminate(child));
  else void terminate(child);
  setTimeout(() => child.kill('SIGKILL'), graceSeconds * 1_000).unref();
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
