import { type Clock, errorText, type Logger, systemClock } from '@ropewalk/kit';
import type { Caches } from './caches.ts';
import { owned as ofControlPlane } from './control-plane/names.ts';
import { createControlPlaneReconciler } from './control-plane/reconcile.ts';
import { CONTROL_PLANES, type ControlPlane } from './crd/control-plane.ts';
import { PROVISIONERS, type Provisioner } from './crd/provisioner.ts';
import { WORKSPACE_PROXIES, type WorkspaceProxy } from './crd/workspace-proxy.ts';
import { type ExternalMetricsOptions, serveExternalMetrics } from './external-metrics/serve.ts';
import { createKubeClient } from './kube/client.ts';
import type { Connection } from './kube/connection.ts';
import { createLookup } from './kube/lookup.ts';
import {
  DEPLOYMENTS,
  INGRESSES,
  JOBS,
  type KubeObject,
  POD_DISRUPTION_BUDGETS,
  PODS,
  type Resource,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
  SERVICES,
} from './kube/types.ts';
import { createChanges } from './machinery/changes.ts';
import { createReporter } from './machinery/events.ts';
import { type Informer, keyOf, pause, startInformer } from './machinery/informer.ts';
import { electLeader } from './machinery/leader.ts';
import { MANAGED } from './machinery/owned.ts';
import { createQueue, type WorkQueue } from './machinery/queue.ts';
import type { MovedKeys } from './provisioner/delete-key.ts';
import { owned as ofProvisioner } from './provisioner/names.ts';
import { createProofs } from './provisioner/proofs.ts';
import { createReconciler } from './provisioner/reconcile.ts';
import { serveScaler } from './provisioner/scaler.ts';
import { createServers } from './provisioner/server.ts';
import { isReferredTo } from './provisioner/target.ts';
import { createUncollectedKeys } from './provisioner/uncollected.ts';
import { owned as ofProxy } from './workspace-proxy/objects.ts';
import { createProxyReconciler } from './workspace-proxy/reconcile.ts';

export interface OperatorOptions {
  connection: Connection;
  /** The namespace whose objects it reconciles. Every namespace if absent. */
  watchNamespace?: string | undefined;
  /** How often to ask each server for its queue and daemons, in ms. */
  pollMs: number;
  log: Logger;
  clock?: Clock;
  /** How often to try to delete keys that could not be deleted with their provisioner, in ms. */
  collectMs?: number;
  /** How many objects of a kind are reconciled at the same time. */
  concurrency?: number;
  /** The image of control planes that name none. */
  defaultImage?: string;
  /** Where to serve KEDA's external scaler. Nowhere if absent. */
  scalerAt?: { host: string; port: number } | undefined;
  /** Where to serve the external metrics API. Nowhere if absent. */
  externalMetrics?: ExternalMetricsOptions | undefined;
}

export interface Operator {
  /** Rejects if another operator takes the lease over. */
  readonly done: Promise<void>;
  stop(): Promise<void>;
}

/** What others ask the operator at. */
interface Listener {
  readonly port: number;
  close(): Promise<void>;
}

const LEASE = 'coder-operator';
const COLLECT_MS = 5 * 60_000;

/** Runs the operator. It waits until it is the leader, and reconciles until it stops or loses the lease. */
export function startOperator(options: OperatorOptions): Operator {
  const { connection, log, clock = systemClock } = options;
  const client = createKubeClient(connection);
  const done = Promise.withResolvers<void>();
  let work: { stop(): Promise<void> } | undefined;
  const election = electLeader({
    client,
    namespace: connection.namespace,
    name: LEASE,
    identity: `${process.env['HOSTNAME'] ?? 'operator'}-${crypto.randomUUID().slice(0, 8)}`,
    log,
    onElected: () => {
      work = startWork(options, client, clock);
    },
    onLost: () => done.reject(new Error('another operator may have taken the lease over')),
  });
  done.promise.catch(() => {});
  return {
    done: done.promise,
    async stop() {
      await work?.stop();
      await election.stop();
      done.resolve();
    },
  };
}

function startWork(options: OperatorOptions, client: ReturnType<typeof createKubeClient>, clock: Clock) {
  const {
    connection,
    watchNamespace,
    pollMs,
    log,
    concurrency = 16,
    collectMs = COLLECT_MS,
    defaultImage = '',
    scalerAt,
    externalMetrics,
  } = options;
  const aborter = new AbortController();
  const informers: Informer<KubeObject>[] = [];
  const inform = <T extends KubeObject>(
    resource: Resource,
    changed: (object: T, specChanged: boolean) => void,
    labelSelector?: string,
  ): Informer<T> => {
    const informer = startInformer<T>({
      client,
      resource,
      scope: { namespace: watchNamespace, labelSelector },
      log,
      onChange: (now, old) => changed((now ?? old)!, now?.metadata.generation !== old?.metadata.generation),
      keep: withoutManagedFields,
    });
    informers.push(informer as unknown as Informer<KubeObject>);
    return informer;
  };
  const synced = Promise.withResolvers<void>();
  const queueOf = (reconcile: () => (key: string) => Promise<number | undefined>): WorkQueue =>
    createQueue({
      concurrency,
      log,
      work: async (key) => {
        await synced.promise;
        return aborter.signal.aborted ? undefined : reconcile()(key);
      },
    });
  const queues = {
    controlPlanes: queueOf(() => reconcileControlPlane),
    provisioners: queueOf(() => reconcileProvisioner),
    proxies: queueOf(() => reconcileProxy),
  };
  const lookup = createLookup(client, clock);
  const demandChanges = createChanges();
  const servers = createServers({
    pollMs,
    log,
    wake: (key) => queues.provisioners.add(key),
    changed: () => demandChanges.raise(),
  });
  const managed = Object.entries(MANAGED)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');
  const wakeOwner = (object: KubeObject) => {
    const provisioner = ofProvisioner.ownerOf(object);
    if (provisioner) queues.provisioners.add(provisioner);
    const plane = ofControlPlane.ownerOf(object);
    if (plane) queues.controlPlanes.add(plane);
    const proxy = ofProxy.ownerOf(object);
    if (proxy) queues.proxies.add(proxy);
  };
  const owned = <T extends KubeObject>(resource: Resource) => inform<T>(resource, wakeOwner, managed);
  const caches: Caches = {
    controlPlanes: inform<ControlPlane>(CONTROL_PLANES, (plane) => {
      queues.controlPlanes.add(keyOf(plane));
      for (const each of caches.provisioners.all()) if (isReferredTo(plane, each)) queues.provisioners.add(keyOf(each));
    }),
    provisioners: inform<Provisioner>(PROVISIONERS, (provisioner, specChanged) => {
      queues.provisioners.add(keyOf(provisioner));
      if (specChanged) demandChanges.raise();
    }),
    proxies: inform<WorkspaceProxy>(WORKSPACE_PROXIES, (proxy) => queues.proxies.add(keyOf(proxy))),
    secrets: owned(SECRETS),
    accounts: owned(SERVICE_ACCOUNTS),
    roles: owned(ROLES),
    bindings: owned(ROLE_BINDINGS),
    deployments: owned(DEPLOYMENTS),
    jobs: owned(JOBS),
    pods: owned(PODS),
    budgets: owned(POD_DISRUPTION_BUDGETS),
    services: owned(SERVICES),
    ingresses: owned(INGRESSES),
  };
  const report = createReporter(client, log, clock);
  const { namespace } = connection;
  const movedKeys: MovedKeys = new Set();
  const proofs = createProofs(client, { namespace, log, signal: aborter.signal });
  const uncollected = createUncollectedKeys({ client, caches, lookup, movedKeys, report, clock, log, namespace });
  const world = {
    client,
    caches,
    lookup,
    servers,
    demandChanges,
    uncollected,
    movedKeys,
    proofs,
    report,
    clock,
    log,
    defaultImage,
  };
  const reconcileProvisioner = createReconciler(world);
  const reconcileControlPlane = createControlPlaneReconciler(world);
  const reconcileProxy = createProxyReconciler(world);
  void Promise.all([proofs.ready, ...informers.map((informer) => informer.synced)]).then(() => {
    log.info('reconciling', { namespace: watchNamespace ?? 'every namespace' });
    synced.resolve();
  });
  // only the leader answers, because it polls the servers, and only when it has found the resources
  const serve = (what: string, start: () => Promise<Listener>): Promise<Listener | undefined> =>
    synced.promise.then(start).then(
      (listener) => {
        log.info(`serving ${what}`, { port: listener.port });
        return listener;
      },
      (err) => {
        log.error(`cannot serve ${what}`, { err: errorText(err) });
        return undefined;
      },
    );
  const listeners = [
    ...(scalerAt ? [serve("KEDA's external scaler", () => serveScaler(world, scalerAt, log))] : []),
    ...(externalMetrics
      ? [serve('the external metrics API', () => serveExternalMetrics(world, externalMetrics, log))]
      : []),
  ];
  const collecting = (async () => {
    // it looks for control planes
    await synced.promise;
    while (!aborter.signal.aborted) {
      await uncollected.collect().catch((err) => log.warn('could not collect provisioner keys', { err }));
      await pause(collectMs, aborter.signal);
    }
  })();
  return {
    async stop() {
      aborter.abort();
      synced.resolve();
      for (const listener of listeners) await (await listener)?.close();
      const stopping = Promise.all(Object.values(queues).map((queue) => queue.stop()));
      await servers.stop();
      await stopping;
      await Promise.all([collecting, proofs.ready, ...informers.map((informer) => informer.stop())]);
    },
  };
}

/** Drops the bookkeeping of server-side apply, which is the largest part of an object in memory. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}
