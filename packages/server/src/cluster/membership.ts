import { hostname } from 'node:os';
import { errorText } from '@ropewalk/kit';
import { type Services, systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { ping } from '../db/connect.ts';
import { deleteGoneReplicas, endReplica, upsertReplica } from '../db/queries/replicas.ts';
import type { PublishedKeys, ReplicaKey } from './handshake.ts';
import type { Peers } from './peers.ts';

/** How often a server repeats its sign of life and measures the others. */
const EVERY_MS = 5_000;
/** How long a server uses its keys. */
const RENEW_MS = 24 * 3_600_000;

export interface MembershipOptions {
  peers: Peers;
  key: ReplicaKey;
  /** Where the other servers reach this one, without a trailing slash. */
  relayAddress: string;
  /** Where they reach its listener for servers, in the same form. Empty without one. */
  clusterAddress: string;
}

/** This server's row in the database, and what it learns from the rows of the others. */
export class Membership {
  readonly #services: Services;
  readonly #options: MembershipOptions;
  readonly #task;
  /** When the keys were made, in the clock's ms. */
  #keysMade: number;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> | undefined;
  #pinging: Promise<void> | undefined;

  constructor(services: Services, options: MembershipOptions) {
    this.#services = services;
    this.#options = options;
    this.#task = systemTask(systemContext(services, 'replicas'));
    this.#keysMade = services.clock.monotonic();
  }

  /** Adds the row. From then on the other servers reach this one. */
  async join(): Promise<void> {
    const { sql } = this.#services;
    await deleteGoneReplicas(sql, this.#task);
    await this.#beat();
    this.#pingAll();
    this.#timer = setInterval(() => {
      this.#beatLogged();
      this.#pingAll();
    }, EVERY_MS).unref();
  }

  /** The other servers forget this one. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    this.#options.peers.close();
    await Promise.all([this.#beating, this.#pinging]);
    const { sql, replicaId, log } = this.#services;
    await endReplica(sql, this.#task, replicaId).catch((err) =>
      log.debug('could not store that this server ends', { err: errorText(err) }),
    );
  }

  /** One at a time. While the database is away, the server keeps the peers that it knows. */
  #beatLogged(): void {
    this.#beating ??= this.#beat()
      .catch((err) => this.#services.log.debug('could not store a sign of life', { err: errorText(err) }))
      .finally(() => {
        this.#beating = undefined;
      });
  }

  /** One at a time, and apart from the sign of life: a server that does not answer must not delay it. */
  #pingAll(): void {
    this.#pinging ??= this.#options.peers.pingAll().finally(() => {
      this.#pinging = undefined;
    });
  }

  async #beat(): Promise<void> {
    const { sql, clock } = this.#services;
    const { peers, key } = this.#options;
    const begun = clock.monotonic();
    await ping(sql);
    const latencyUs = Math.round((clock.monotonic() - begun) * 1_000);
    if (begun - this.#keysMade < RENEW_MS) await this.#store(key.published, latencyUs);
    else {
      await key.renew((keys) => this.#store(keys, latencyUs));
      this.#keysMade = begun;
    }
    await peers.refresh();
  }

  async #store({ publicKey, certificate }: PublishedKeys, latencyUs: number): Promise<void> {
    const { sql, version, replicaId } = this.#services;
    const { peers, relayAddress, clusterAddress } = this.#options;
    await upsertReplica(sql, this.#task, {
      id: replicaId,
      hostname: hostname(),
      version,
      relay_address: relayAddress,
      cluster_address: clusterAddress,
      public_key: publicKey,
      certificate,
      database_latency_us: latencyUs,
      problem: peers.problem(),
    });
  }
}
