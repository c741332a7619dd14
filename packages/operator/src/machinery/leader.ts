// Leader election by a Lease: of several operators one reconciles, and another takes over when its lease is not renewed.
// Each candidate measures the lease's age with its own clock, from the moment when it saw the last renewal, so that the
// clocks of machines may differ.
import { type Clock, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import { type KubeObject, LEASES } from '../kube/types.ts';
import { pause } from './informer.ts';

interface Lease extends KubeObject {
  spec: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface LeaderOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** Unique for each process. */
  identity: string;
  log: Logger;
  clock?: Clock;
  leaseMs?: number;
  retryMs?: number;
  /** Called once when this process becomes the leader. */
  onElected(): void;
  /** Called once when another process may have become the leader. This one must stop its work. */
  onLost(): void;
}

export interface LeaderElection {
  /** Gives the lease up, so that another candidate takes over immediately. */
  stop(): Promise<void>;
}

export function electLeader(options: LeaderOptions): LeaderElection {
  const { client, namespace, name, identity, log, onElected, onLost } = options;
  const { clock = systemClock, leaseMs = 15_000, retryMs = 2_000 } = options;
  const aborter = new AbortController();
  let seen: { version: string; at: number } | undefined;
  let renewedAt: number | undefined;

  const microTime = () => clock.now().toISOString().replace('Z', '000Z');
  const specOf = (old?: Lease['spec']): Lease['spec'] => ({
    holderIdentity: identity,
    leaseDurationSeconds: Math.max(1, Math.round(leaseMs / 1000)),
    acquireTime: old?.holderIdentity === identity && old.acquireTime ? old.acquireTime : microTime(),
    renewTime: microTime(),
    leaseTransitions: (old?.leaseTransitions ?? 0) + (!old || old.holderIdentity === identity ? 0 : 1),
  });
  /** Whether this process holds the lease now. */
  const attempt = async (): Promise<boolean> => {
    const at = clock.monotonic();
    let lease: Lease;
    try {
      lease = await client.get<Lease>(LEASES, namespace, name);
    } catch (err) {
      if (!isNotFound(err)) throw err;
      await client.create<Lease>(LEASES, { metadata: { namespace, name }, spec: specOf() });
      renewedAt = at;
      return true;
    }
    const { holderIdentity = '', leaseDurationSeconds = 0 } = lease.spec;
    const version = lease.metadata.resourceVersion!;
    if (seen?.version !== version) seen = { version, at };
    const expired = at - seen.at >= leaseDurationSeconds * 1000;
    if (holderIdentity !== '' && holderIdentity !== identity && !expired) return false;
    await client.replace<Lease>(LEASES, { metadata: lease.metadata, spec: specOf(lease.spec) });
    renewedAt = at;
    return true;
  };
  const release = async () => {
    const lease = await client.get<Lease>(LEASES, namespace, name);
    if (lease.spec.holderIdentity !== identity) return;
    const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1 };
    await client.replace<Lease>(LEASES, { metadata: lease.metadata, spec });
  };
  const run = async () => {
    while (!aborter.signal.aborted) {
      let held = false;
      try {
        held = await attempt();
      } catch (err) {
        // another candidate was faster, or the API server is away: while the lease lasts, a leader tries again
        if (!isConflict(err))
          log.warn('leader election failed', { lease: `${namespace}/${name}`, err: errorText(err) });
      }
      if (held && !elected) {
        elected = true;
        log.info('became the leader', { lease: `${namespace}/${name}`, identity });
        onElected();
      }
      // stops before the others may count the lease as expired
      if (elected && !held && clock.monotonic() - renewedAt! >= leaseMs - 2 * retryMs) {
        log.error('lost the leadership', { lease: `${namespace}/${name}`, identity });
        onLost();
        return;
      }
      await pause(retryMs, aborter.signal);
    }
  };
  let elected = false;
  const running = run();
  return {
    async stop() {
      aborter.abort();
      await running;
      if (elected) await release().catch((err) => log.warn('could not release the lease', { err: errorText(err) }));
    },
  };
}
