import type { BackgroundTask } from '../../app/context/background-task.ts';
import type { Services } from '../../app/context/context.ts';
import { withoutCredential } from '../../app/provisioner/credential.ts';
import type { Ownership } from '../../db/owned.ts';
import { type DaemonRow, type LiveConnection, touchDaemons } from '../../db/queries/daemons.ts';
import { renewLeases } from '../../db/queries/job-ownership.ts';

/** How often live connections renew the rows of their daemons and the leases of their jobs. */
const LIVENESS_MS = 10_000;
/** The longest time until a revocation is found whose notification was lost. */
const CREDENTIALS_MS = 4_000;

/** One connection of a daemon. */
export interface ConnectedDaemon {
  daemon: DaemonRow;
  connection: LiveConnection;
  /** The jobs that its connection owns. */
  ownerships(): Ownership[];
  /** Puts back the jobs that were sent to the daemon and that it dropped. */
  putBackDropped(): Promise<void>;
  /** The daemon's credential has become invalid. */
  revoke(): Promise<void>;
}

/** The tasks that look after all connected daemons together, with the same number of statements for a thousand as for one. */
export function daemonUpkeepTasks(services: Services, daemons: ReadonlySet<ConnectedDaemon>): BackgroundTask[] {
  const { sql, events, config } = services;
  return [
    {
      name: 'daemon liveness',
      periodMs: LIVENESS_MS,
      needsLock: false,
      async run() {
        if (daemons.size === 0) return undefined;
        await touchDaemons(
          sql,
          [...daemons].map(({ connection }) => connection),
        );
        for (const daemon of daemons) await daemon.putBackDropped();
        await renewLeases(
          sql,
          [...daemons].flatMap((daemon) => daemon.ownerships()),
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
        if (daemons.size === 0) return undefined;
        const gone = await withoutCredential(
          services,
          [...daemons].map(({ daemon }) => daemon),
        );
        for (const each of daemons) if (gone.has(each.daemon.id)) await each.revoke();
        return undefined;
      },
    },
  ];
}
