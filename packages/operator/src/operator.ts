import { type Clock, type Logger, systemClock } from '@platform/kit';
import { PROVISIONERS, type Provisioner } from './crd/provisioner.ts';
import { createKubeClient } from './kube/client.ts';
import type { Connection } from './kube/connection.ts';
import { createLookup } from './kube/lookup.ts';
import {
  DEPLOYMENTS,
  JOBS,
  type KubeObject,
  POD_DISRUPTION_BUDGETS,
  PODS,
  type Resource,
  ROLE_BINDINGS,
  ROLES,
  SECRETS,
  SERVICE_ACCOUNTS,
} from './kube/types.ts';
import { createReporter } from './machinery/events.ts';
import { type Informer, keyOf, pause, startInformer } from './machinery/informer.ts';
import { electLeader } from './machinery/leader.ts';
import { createQueue } from './machinery/queue.ts';
import { MANAGED, provisionerOf } from './provisioner/names.ts';
import { createReconciler } from './provisioner/reconcile.ts';
import { createServers } from './provisioner/server.ts';
import { createUncollectedKeys } from './provisioner/uncollected.ts';
import type { Caches } from './provisioner/world.ts';

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
  /** How many provisioners are reconciled at once. */
  concurrency?: number;
}

export interface Operator {
  /** Rejects if another operator takes the lease over. */
  readonly done: Promise<void>;
  stop(): Promise<void>;
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
  const { connection, watchNamespace, pollMs, log, concurrency = 16, collectMs = COLLECT_MS } = options;
  const aborter = new AbortController();
  const informers: Informer<KubeObject>[] = [];
  const inform = <T extends KubeObject>(
    resource: Resource,
    concerned: (object: T) => string | undefined,
    labelSelector?: string,
  ): Informer<T> => {
    const informer = startInformer<T>({
      client,
      resource,
      scope: { namespace: watchNamespace, labelSelector },
      log,
      onChange: (now, old) => {
        const key = concerned((now ?? old)!);
        if (key) queue.add(key);
      },
      keep: withoutManagedFields,
    });
    informers.push(informer as unknown as Informer<KubeObject>);
    return informer;
  };
  const lookup = createLookup(client, clock);
  const servers = createServers({ pollMs, log, wake: (key) => queue.add(key) });
  const uncollected = createUncollectedKeys({ client, lookup, log }, connection.namespace);
  const synced = Promise.withResolvers<void>();
  const queue = createQueue({
    concurrency,
    log,
    work: async (key) => {
      await synced.promise;
      return aborter.signal.aborted ? undefined : reconcile(key);
    },
  });
  const managed = Object.entries(MANAGED)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');
  const owned = <T extends KubeObject>(resource: Resource) => inform<T>(resource, provisionerOf, managed);
  const caches: Caches = {
    provisioners: inform<Provisioner>(PROVISIONERS, keyOf),
    secrets: owned(SECRETS),
    accounts: owned(SERVICE_ACCOUNTS),
    roles: owned(ROLES),
    bindings: owned(ROLE_BINDINGS),
    deployments: owned(DEPLOYMENTS),
    jobs: owned(JOBS),
    pods: owned(PODS),
    budgets: owned(POD_DISRUPTION_BUDGETS),
  };
  const report = createReporter(client, log, clock);
  const reconcile = createReconciler({ client, caches, lookup, servers, uncollected, report, clock, log });
  void Promise.all(informers.map((informer) => informer.synced)).then(() => {
    log.info('reconciling', { namespace: watchNamespace ?? 'every namespace' });
    synced.resolve();
  });
  const collecting = (async () => {
    while (!aborter.signal.aborted) {
      await uncollected.collect().catch((err) => log.warn('could not collect provisioner keys', { err }));
      await pause(collectMs, aborter.signal);
    }
  })();
  return {
    async stop() {
      aborter.abort();
      synced.resolve();
      const stopping = queue.stop();
      await servers.stop();
      await stopping;
      await Promise.all([collecting, ...informers.map((informer) => informer.stop())]);
    },
  };
}

/** Drops the bookkeeping of server-side apply, which is the largest part of an object in memory. */
function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}
