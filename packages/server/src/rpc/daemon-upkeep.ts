import type { BackgroundTask } from '../app/background-task.ts';
import type { Services } from '../app/context.ts';
import { withoutCredential } from '../app/provisioner/credential.ts';
import { type DaemonRow, type LiveConnection, touchDaemons } from '../db/queries/daemons.ts';
import { type Ownership, renewLeases } from '../db/queries/job-ownership.ts';

/** A live connection is a sign of life: rows of daemons and leases of jobs are renewed this often. */
const LIVENESS_MS = 10_000;
/** A revocation whose notification was lost is found within this. */
const CREDENTIALS_MS = 4_000;

/** A connected daemon. */
export interface Peer {
  daemon: DaemonRow;
  connection: LiveConnection;
  /** The jobs that its connection holds. */
  owned(): Ownership[];
  /** Puts back what it was sent and never got hold of. */
  putBackUnconfirmed(): Promise<void>;
  /** Its credential does not let it in any more. */
  revoke(): Promise<void>;
}

/** Tasks that look after all connected daemons at once, with as many statements for a thousand as for one. */
export function daemonUpkeepTasks(services: Services, peers: ReadonlySet<Peer>): BackgroundTask[] {
  const { sql, events, config } = services;
  return [
    {
      name: 'daemon liveness',
      periodMs: LIVENESS_MS,
      needsLock: false,
      async run() {
        if (peers.size === 0) return undefined;
        await touchDaemons(
          sql,
          [...peers].map(({ connection }) => connection),
        );
        for (const peer of peers) await peer.putBackUnconfirmed();
        await renewLeases(
          sql,
          [...peers].flatMap((peer) => peer.owned()),
          config.provisionerLease,
        );
        return undefined;
      },
    },
    {
      name: 'daemon credentials',
      periodMs: CREDENTIALS_MS,
      needsLock: false,
      wakeOn: (wake) => [events.on('revoked', wake), events.onResync(wake)],
      async run() {
        if (peers.size === 0) return undefined;
        const gone = await withoutCredential(
          services,
          [...peers].map(({ daemon }) => daemon),
        );
        for (const peer of peers) if (gone.has(peer.daemon.id)) await peer.revoke();
        return undefined;
      },
    },
  ];
}
