// Runs as many daemons as the spec or the queue asks for. Shrinking never stops a build: pods that run one get a higher
// deletion cost, and a daemon that takes a job at the last moment finishes it before its pod ends.
import type { ProvisionerDaemon, ProvisionerJob } from '@ropewalk/contract';
import { matchesTags, UNTAGGED } from '@ropewalk/rules';
import type { Provisioner, ProvisionerStatus } from '../crd/provisioner.ts';
import { ignoreNotFound, isNotFound } from '../kube/client.ts';
import { endOfJob, type Job, type Pod } from '../kube/objects.ts';
import { DEPLOYMENTS, JOBS, kubeTime, PODS, SERVICE_ACCOUNTS } from '../kube/types.ts';
import { applyChanges } from '../machinery/apply.ts';
import { keyOf } from '../machinery/informer.ts';
import type { World } from '../world.ts';
import { type Decision, type Demand, decide } from './autoscale.ts';
import { accountName, deploymentName, owned } from './names.ts';
import { deployment, job, type Runtime, serviceAccount } from './objects.ts';

/** Kubernetes removes pods with a lower cost first. Without the annotation the cost is 0. */
const DELETION_COST = 'controller.kubernetes.io/pod-deletion-cost';

/** Since when fewer daemons would do, by provisioner. A new leader starts to count again. */
export type Surplus = Map<string, number>;

export interface Scaled {
  replicas: number;
  autoscaling: ProvisionerStatus['autoscaling'];
  /** When to look again, in ms. */
  againMs?: number | undefined;
}

export interface Situation {
  provisioner: Provisioner;
  runtime: Runtime;
  /** The daemons with a key of this provisioner. */
  daemons: readonly ProvisionerDaemon[];
  /** Every pending job of the organization. */
  pending: readonly ProvisionerJob[];
}

export function podsOf({ caches }: World, provisioner: Provisioner): Pod[] {
  const key = keyOf(provisioner);
  return [...caches.pods.all()].filter(
    (pod) => pod.metadata.namespace === provisioner.metadata.namespace && owned.ownerOf(pod) === key,
  );
}

/** The jobs in the queue that a provisioner's daemons could take, and the builds that they run. */
export function demandOf({ provisioner, daemons, pending }: Pick<Situation, 'provisioner' | 'daemons' | 'pending'>): {
  pending: number;
  busy: number;
} {
  const tags = { ...UNTAGGED, ...provisioner.spec.tags };
  // the list of jobs may be from just before a daemon took one, and the list of daemons from just after
  const taken = new Set(daemons.map(({ current_job }) => current_job?.id));
  return {
    pending: pending.filter((waiting) => !taken.has(waiting.id) && matchesTags(waiting.tags, tags)).length,
    busy: daemons.filter(isBusy).length,
  };
}

const isBusy = ({ status }: ProvisionerDaemon) => status === 'busy';

export async function scale(world: World, situation: Situation, surplus: Surplus): Promise<Scaled> {
  const { spec } = situation.provisioner;
  if (!spec.autoscaling) {
    await removeJobs(world, situation.provisioner);
    const replicas = spec.replicas ?? 1;
    await applyDeployment(world, situation, replicas);
    return { replicas, autoscaling: undefined };
  }
  return spec.autoscaling.mode === 'Job'
    ? scaleJobs(world, situation, surplus)
    : scaleDeployment(world, situation, surplus);
}

async function scaleDeployment(world: World, situation: Situation, surplus: Surplus): Promise<Scaled> {
  const { provisioner } = situation;
  const { minReplicas } = provisioner.spec.autoscaling!;
  const { namespace = '' } = provisioner.metadata;
  await removeJobs(world, provisioner);
  const live = world.caches.deployments.get(namespace, deploymentName(provisioner));
  const { pending, busy } = demandOf(situation);
  const current = live?.spec.replicas ?? minReplicas;
  const decision = decideNow(world, provisioner, surplus, { min: minReplicas, pending, busy, current });
  await applyDeployment(world, situation, decision.replicas);
  return scaled(world, situation, { pending, decision, changed: live?.spec.replicas !== decision.replicas });
}

/** Decides how many daemons to run, and notes since when fewer would do. */
function decideNow(
  { clock }: World,
  provisioner: Provisioner,
  surplus: Surplus,
  now: Pick<Demand, 'min' | 'pending' | 'busy' | 'current'>,
): Decision {
  const { maxReplicas, idleSeconds } = provisioner.spec.autoscaling!;
  const key = keyOf(provisioner);
  const decision = decide({
    ...now,
    max: maxReplicas,
    idleMs: idleSeconds * 1000,
    now: clock.monotonic(),
    surplusSince: surplus.get(key),
  });
  if (decision.surplusSince === undefined) surplus.delete(key);
  else surplus.set(key, decision.surplusSince);
  return decision;
}

function scaled(
  world: World,
  situation: Situation,
  { pending, decision, changed }: { pending: number; decision: Decision; changed: boolean },
): Scaled {
  return {
    replicas: decision.replicas,
    againMs: decision.againMs,
    autoscaling: {
      pendingJobs: pending,
      desiredReplicas: decision.desired,
      ...scaleTime(world, situation, changed),
    },
  };
}

function scaleTime({ clock }: World, { provisioner }: Situation, changed: boolean): { lastScaleTime?: string } {
  const last = provisioner.status?.autoscaling?.lastScaleTime;
  if (changed) return { lastScaleTime: kubeTime(clock.now()) };
  return last ? { lastScaleTime: last } : {};
}

/**
 * Applies the account of the daemons. Without any daemon only an existing one, because nothing uses it: a thousand provisioners
 * that wait for jobs cost a thousand requests less.
 */
async function applyAccount({ client, caches }: World, provisioner: Provisioner, daemons: number): Promise<void> {
  const account = caches.accounts.get(provisioner.metadata.namespace!, accountName(provisioner));
  if (daemons === 0 && !account) return;
  caches.accounts.store(await applyChanges(client, SERVICE_ACCOUNTS, serviceAccount(provisioner), account));
}

/** Applies the Deployment with this number of daemons. Kubernetes removes those that are idle first. */
async function applyDeployment(world: World, situation: Situation, replicas: number) {
  const { client, caches } = world;
  const { provisioner, runtime } = situation;
  await applyAccount(world, provisioner, replicas);
  const desired = deployment(provisioner, runtime, replicas);
  const live = caches.deployments.get(provisioner.metadata.namespace!, desired.metadata.name);
  if (replicas < (live?.spec.replicas ?? 0)) await protectBuilds(world, situation);
  caches.deployments.store(await applyChanges(client, DEPLOYMENTS, desired, live));
}

/** Marks the pods that run a build, so that Kubernetes removes others. */
async function protectBuilds(world: World, { provisioner, daemons }: Situation): Promise<void> {
  const busy = new Set(daemons.filter(isBusy).map(({ name }) => name));
  for (const pod of podsOf(world, provisioner)) {
    const { namespace = '', name, annotations } = pod.metadata;
    const cost = busy.has(name) ? '1' : undefined;
    if (annotations?.[DELETION_COST] === cost) continue;
    try {
      const patch = { metadata: { annotations: { [DELETION_COST]: cost ?? null } } };
      world.caches.pods.store(await world.client.merge<Pod>(PODS, { namespace, name }, patch));
    } catch (err) {
      if (!isNotFound(err)) throw err;
    }
  }
}

function jobsOf({ caches }: World, provisioner: Provisioner): Job[] {
  const key = keyOf(provisioner);
  return [...caches.jobs.all()].filter(
    (each) => owned.ownerOf(each) === key && !endOfJob(each) && !each.metadata.deletionTimestamp,
  );
}

/** One Job for each build. A Job whose daemon never got a build is deleted after the idle time. */
async function scaleJobs(world: World, situation: Situation, surplus: Surplus): Promise<Scaled> {
  const { provisioner, daemons, runtime } = situation;
  const { client, caches } = world;
  await removeDeployment(world, provisioner);
  const busyPods = new Set(daemons.filter(isBusy).map(({ name }) => name));
  const podJob = (pod: Pod) => pod.metadata.labels?.['batch.kubernetes.io/job-name'];
  const busyJobs = new Set(
    podsOf(world, provisioner)
      .filter((pod) => busyPods.has(pod.metadata.name))
      .map(podJob),
  );
  const all = jobsOf(world, provisioner);
  const free = all.filter((each) => !busyJobs.has(each.metadata.name));
  const { pending } = demandOf(situation);
  const busy = all.length - free.length;
  const decision = decideNow(world, provisioner, surplus, { min: 0, pending, busy, current: all.length });
  await applyAccount(world, provisioner, decision.replicas);
  for (let count = all.length; count < decision.replicas; count++) {
    caches.jobs.store(await client.create(JOBS, job(provisioner, runtime)));
  }
  for (const each of free.slice(0, Math.max(0, all.length - decision.replicas))) await removeJob(world, each);
  return scaled(world, situation, { pending, decision, changed: all.length !== decision.replicas });
}

async function removeDeployment({ client, caches }: World, provisioner: Provisioner): Promise<void> {
  const { namespace = '' } = provisioner.metadata;
  const live = caches.deployments.get(namespace, deploymentName(provisioner));
  if (!live || live.metadata.deletionTimestamp) return;
  await client.delete(DEPLOYMENTS, namespace, live.metadata.name).catch(ignoreNotFound);
}

async function removeJobs(world: World, provisioner: Provisioner): Promise<void> {
  for (const each of jobsOf(world, provisioner)) await removeJob(world, each);
}

async function removeJob({ client }: World, { metadata }: Job): Promise<void> {
  await client.delete(JOBS, metadata.namespace!, metadata.name).catch(ignoreNotFound);
}
