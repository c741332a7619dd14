import { errorText, type Logger } from '@ropewalk/kit';
import type { Departure } from '../rpc/departure.ts';
import type { Peers } from './peers.ts';

export interface LeavingOptions {
  peers: Pick<Peers, 'refresh' | 'watch' | 'isAnyReady'>;
  departure: Departure;
  log: Logger;
}

/**
 * Moves agents and daemons to other servers while this server drains. It asks the others whether they are ready, now and
 * whenever it reads their rows: without a server that is ready, agents and daemons stay and new ones are accepted. A
 * server that drains is not ready, so of servers that drain at the same time the last one keeps them.
 */
export class Leaving {
  readonly #options: LeavingOptions;
  #isLooking = false;
  /** Whether the other servers have changed since they were asked. */
  #isOutdated = false;
  #ended = false;

  constructor(options: LeavingOptions) {
    this.#options = options;
  }

  /** From the first call on, the other servers must see that this one is not ready. */
  begin(): void {
    const { peers, log } = this.#options;
    peers.watch(() => this.#look());
    // one that has just started may be the only one that is ready
    void peers.refresh().catch((err) => log.debug('could not read the other servers', { err: errorText(err) }));
  }

  /** The server ends: connections that come until then are accepted or rejected as before. */
  end(): void {
    this.#ended = true;
  }

  #look(): void {
    if (this.#ended) return;
    this.#isOutdated = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    void this.#lookAll().finally(() => {
      this.#isLooking = false;
    });
  }

  async #lookAll(): Promise<void> {
    while (this.#isOutdated) {
      this.#isOutdated = false;
      await this.#lookOnce();
    }
  }

  async #lookOnce(): Promise<void> {
    const { peers, departure, log } = this.#options;
    const isAnyReady = await peers.isAnyReady();
    if (this.#ended || isAnyReady === departure.isOn) return;
    if (isAnyReady) log.info('moving agents and provisioner daemons to other servers');
    else log.info('accepting agents and provisioner daemons again: no other server is ready');
    departure.isOn = isAnyReady;
  }
}
