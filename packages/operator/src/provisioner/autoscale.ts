/** What the number of daemons depends on. */
export interface Demand {
  min: number;
  max: number;
  idleMs: number;
  /** Jobs in the queue that the daemons could take. */
  pending: number;
  /** Daemons that run a build now. */
  busy: number;
  /** The number of daemons that was set last. */
  current: number;
  now: number;
  /** Since when fewer daemons would do. */
  surplusSince: number | undefined;
}

export interface Decision {
  /** How many daemons the queue needs, within the bounds. */
  desired: number;
  /** How many to run now. */
  replicas: number;
  surplusSince: number | undefined;
  /** When to decide again, in ms, if nothing else happens before. */
  againMs?: number;
}

/** Grows immediately, and shrinks when fewer daemons were enough for the whole idle time. Never below the running builds. */
export function decide({ min, max, idleMs, pending, busy, current, now, surplusSince }: Demand): Decision {
  const desired = Math.min(max, Math.max(min, busy + pending));
  if (desired >= current) return { desired, replicas: desired, surplusSince: undefined };
  const since = surplusSince ?? now;
  const leftMs = since + idleMs - now;
  if (leftMs <= 0) return { desired, replicas: Math.max(desired, busy), surplusSince: undefined };
  return { desired, replicas: Math.max(busy, Math.min(current, max)), surplusSince: since, againMs: leftMs };
}
