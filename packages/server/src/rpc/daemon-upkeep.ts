import { errorText } from '@platform/kit';
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

/** Looks after all connected daemons at once, with as many statements for a thousand as for one. */
export function startDaemonUpkeep(services: Services, peers: ReadonlySet<Peer>): { close(): void } {
  const { sql, events, config, log } = services;

  async function noteLiveness(): Promise<void> {
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
  }

  async function checkCredentials(): Promise<void> {
    const gone = await withoutCredential(
      services,
      [...peers].map(({ daemon }) => daemon),
    );
    for (const peer of peers) if (gone.has(peer.daemon.id)) await peer.revoke();
  }

  /** One run at a time; asked for meanwhile: once more afterwards. */
  const alone = (what: string, work: () => Promise<void>) => {
    let running = false;
    let again = false;
    return async () => {
      again = true;
      if (running) return;
      running = true;
      while (again) {
        again = false;
        if (peers.size > 0) await work().catch((err) => log.warn(`could not ${what}`, { err: errorText(err) }));
      }
      running = false;
    };
  };
  const liveness = alone('note which daemons are alive', noteLiveness);
  const credentials = alone('check the credentials of daemons', checkCredentials);
  const timers = [
    setInterval(() => void liveness(), LIVENESS_MS).unref(),
    setInterval(() => void credentials(), CREDENTIALS_MS).unref(),
  ];
  const off = [events.on('revoked', () => void credentials()), events.onResync(() => void credentials())];
  return {
    close() {
      for (const timer of timers) clearInterval(timer);
      for (const stop of off) stop();
    },
  };
}
