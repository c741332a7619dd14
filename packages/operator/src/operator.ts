import { type Clock, errorText, type Logger, systemClock } from '@ropewalk/kit';
import type { Caches } from './caches.ts';
import { owned as ofControlPlane } from './control-plane/names.ts';
import { createControlPlaneReconciler } from './control-plane/reconcile.ts';
import { CONTROL_PLANES, type ControlPlane } from './crd/control-plane.ts';
import { PROVISIONERS, type Provisioner } from './crd/provisioner.ts';
import { WORKSPACE_PROXIES, type WorkspaceProxy } from './crd/workspace-proxy.ts';
import { type ExternalMetricsOptions, serveExternalMetrics } from './external-metrics/serve.ts';
import { createKubeClient, type KubeClient } from './kube/client.ts';
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
import { createProofs } from './machinery/proofs.ts';
import { createQueue, type WorkQueue } from './machinery/queue.ts';
import type { MovedKeys } from './provisioner/delete-key.ts';
import { owned as ofProvisioner } from './provisioner/names.ts';
import { createReconciler } from './provisioner/reconcile.ts';
import { serveScaler } from './provisioner/scaler.ts';
import { createServers, type Servers } from './provisioner/server.ts';
import { isReferredTo } from './provisioner/target.ts';
import { createUncollectedKeys } from './provisioner/uncollected.ts';
import { owned as ofProxy } from './workspace-proxy/objects.ts';
import { createProxyReconciler } from './workspace-proxy/reconcile.ts';
import type { World } from './world.ts';

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
  let work: LeaderWork | undefined;
  const election = electLeader({
    client,
    namespace: connection.namespace,
    name: LEASE,
    identity: `${process.env['HOSTNAME'] ?? 'operator'}-${crypto.randomUUID().slice(0, 8)}`,
    log,
    onElected: () => {
      work = new LeaderWork(options, client, clock);
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

/** What the operator does while it is the leader: it follows the resources, reconciles them, and serves metrics of them. */
class LeaderWork {
  readonly #options: OperatorOptions;
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #aborter = new AbortController();
  /** Resolves when every cache is complete, or the work stops. Nothing is reconciled before. */
  readonly #synced = Promise.withResolvers<void>();
  readonly #informers: Informer<KubeObject>[] = [];
  readonly #demandChanges = createChanges();
  readonly #queues: Record<'controlPlanes' | 'provisioners' | 'proxies', WorkQueue>;
  readonly #servers: Servers;
  readonly #caches: Caches;
  readonly #world: World;
  readonly #listeners: Promise<Listener | undefined>[];
  readonly #collecting: Promise<void>;

  constructor(options: OperatorOptions, client: KubeClient, clock: Clock) {
    const { log, pollMs } = options;
    this.#options = options;
    this.#client = client;
    this.#clock = clock;
    this.#log = log;
    // the queues wait for `#synced`, and so for the reconcilers
    this.#queues = {
      controlPlanes: this.#queue(() => reconcileControlPlane),
      provisioners: this.#queue(() => reconcileProvisioner),
      proxies: this.#queue(() => reconcileProxy),
    };
    this.#servers = createServers({
      pollMs,
      log,
      wake: (key) => this.#queues.provisioners.add(key),
      changed: () => this.#demandChanges.raise(),
    });
    this.#caches = this.#follow();
    this.#world = this.#createWorld();
    const reconcileProvisioner = createReconciler(this.#world);
    const reconcileControlPlane = createControlPlaneReconciler(this.#world);
    const reconcileProxy = createProxyReconciler(this.#world);
    void this.#begin();
    this.#listeners = this.#listen();
    this.#collecting = this.#collectKeys();
  }

  async stop(): Promise<void> {
    this.#aborter.abort();
    this.#synced.resolve();
    for (const listener of this.#listeners) await (await listener)?.close();
    const stopping = Promise.all(Object.values(this.#queues).map((queue) => queue.stop()));
    await this.#servers.stop();
    await stopping;
    const informers = this.#informers.map((informer) => informer.stop());
    await Promise.all([this.#collecting, this.#world.proofs.ready, ...informers]);
  }

  #queue(reconcile: () => (key: string) => Promise<number | undefined>): WorkQueue {
    return createQueue({
      concurrency: this.#options.concurrency ?? 16,
      log: this.#log,
      work: async (key) => {
        await this.#synced.promise;
        return this.#aborter.signal.aborted ? undefined : reconcile()(key);
      },
    });
  }

  /** Follows the resources. A change wakes the object that it belongs to. */
  #follow(): Caches {
    const queues = this.#queues;
    const managed = Object.entries(MANAGED)
      .map(([name, value]) => `${name}=${value}`)
      .join(',');
    const owned = <T extends KubeObject>(resource: Resource) =>
      this.#inform<T>(resource, (object) => this.#wakeOwner(object), managed);
    return {
      controlPlanes: this.#inform<ControlPlane>(CONTROL_PLANES, (plane) => this.#onControlPlane(plane)),
      provisioners: this.#inform<Provisioner>(PROVISIONERS, (provisioner, specChanged) => {
        queues.provisioners.add(keyOf(provisioner));
        if (specChanged) this.#demandChanges.raise();
      }),
      proxies: this.#inform<WorkspaceProxy>(WORKSPACE_PROXIES, (proxy) => queues.proxies.add(keyOf(proxy))),
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
  }

  #inform<T extends KubeObject>(
    resource: Resource,
    changed: (object: T, specChanged: boolean) => void,
    labelSelector?: string,
  ): Informer<T> {
    const informer = startInformer<T>({
      client: this.#client,
      resource,
      scope: { namespace: this.#options.watchNamespace, labelSelector },
      log: this.#log,
      onChange: (now, old) => changed((now ?? old)!, now?.metadata.generation !== old?.metadata.generation),
      keep: withoutManagedFields,
    });
    this.#informers.push(informer as unknown as Informer<KubeObject>);
    return informer;
  }

  /** Wakes a control plane and the provisioners that refer to it. */
  #onControlPlane(plane: ControlPlane): void {
    this.#queues.controlPlanes.add(keyOf(plane));
    for (const each of this.#caches.provisioners.all()) {
      if (isReferredTo(plane, each)) this.#queues.provisioners.add(keyOf(each));
    }
  }

  #wakeOwner(object: KubeObject): void {
    const provisioner = ofProvisioner.ownerOf(object);
    if (provisioner) this.#queues.provisioners.add(provisioner);
    const plane = ofControlPlane.ownerOf(object);
    if (plane) this.#queues.controlPlanes.add(plane);
    const proxy = ofProxy.ownerOf(object);
    if (proxy) this.#queues.proxies.add(proxy);
  }

  #createWorld(): World {
    const { connection, defaultImage = '' } = this.#options;
    const { namespace } = connection;
    const client = this.#client;
    const caches = this.#caches;
    const clock = this.#clock;
    const log = this.#log;
    const lookup = createLookup(client, clock);
    const report = createReporter(client, log, clock);
    const movedKeys: MovedKeys = new Set();
    return {
      client,
      caches,
      lookup,
      servers: this.#servers,
      demandChanges: this.#demandChanges,
      uncollected: createUncollectedKeys({ client, caches, lookup, movedKeys, report, clock, log, namespace }),
      movedKeys,
      proxyTokens: new Map(),
      proofs: createProofs(client, { namespace, log, signal: this.#aborter.signal }),
      report,
      clock,
      log,
      defaultImage,
    };
  }

  /** Lets the queues work when every cache is complete. */
  async #begin(): Promise<void> {
    await Promise.all([this.#world.proofs.ready, ...this.#informers.map((informer) => informer.synced)]);
    this.#log.info('reconciling', { namespace: this.#options.watchNamespace ?? 'every namespace' });
    this.#synced.resolve();
  }

  #listen(): Promise<Listener | undefined>[] {
    const { scalerAt, externalMetrics } = this.#options;
    const world = this.#world;
    const log = this.#log;
    return [
      ...(scalerAt ? [this.#serve("KEDA's external scaler", () => serveScaler(world, scalerAt, log))] : []),
      ...(externalMetrics
        ? [this.#serve('the external metrics API', () => serveExternalMetrics(world, externalMetrics, log))]
        : []),
    ];
  }

  /** Only the leader answers, because it polls the servers, and only when it has found the resources. */
  async #serve(what: string, start: () => Promise<Listener>): Promise<Listener | undefined> {
    await this.#synced.promise;
    try {
      const listener = await start();
      this.#log.info(`serving ${what}`, { port: listener.port });
      return listener;
    } catch (err) {
      this.#log.error(`cannot serve ${what}`, { err: errorText(err) });
      return undefined;
    }
  }

  /** Tries again and again to delete keys that could not be deleted with their provisioner. */
  async #collectKeys(): Promise<void> {
    const { collectMs = COLLECT_MS } = this.#options;
    // it looks for control planes
    await this.#synced.promise;
    while (!this.#aborter.signal.aborted) {
      await this.#world.uncollected
        .collect()
        .catch((err) => this.#log.warn('could not collect provisioner keys', { err }));
      await pause(collectMs, this.#aborter.signal);
    }
  }
}

/** Drops the bookkeeping of server-side apply, which is the largest part of an object in memory. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}
