import { errorText, type Logger } from '@ropewalk/kit';

/** The name of an event that each server sends only to itself. */
export const BEAT = 'beat';

export interface HeartbeatOptions {
  send(text: string): Promise<unknown>;
  /** Called before each further notification while the previous one has not arrived. */
  onMissing(): void;
  /** How often notifications were sent, and how often that failed or they did not arrive. */
  counts: { measures: number; unmeasured: number };
  log: Logger;
}

/**
 * Notifications of this server to itself, one at a time. They show whether notifications arrive: a connection can be open
 * without delivering anything, half-open or from a pooler that does not listen.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #id = crypto.randomUUID();
  #beating = false;
  /** By performance.now(). */
  #sentAt = 0;
  /** Whether the last notification has not arrived yet. */
  #undelivered = false;
  /** Whether notifications arrived when the last one was sent. */
  arrives = true;
  /** Of the last notification, in seconds: until the database accepted it, and until it arrived. */
  sendSeconds: number | undefined;
  receiveSeconds: number | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Checks whether the last notification has arrived, and sends the next one. Never fails. */
  async beat(): Promise<void> {
    if (this.#beating) return;
    this.#beating = true;
    const { send, counts, log } = this.#options;
    try {
      await this.#checkLast();
      // set first: the notification may arrive before the statement ends
      this.#undelivered = true;
      counts.measures++;
      this.#sentAt = performance.now();
      await send(JSON.stringify({ n: BEAT, p: this.#id }));
      this.sendSeconds = secondsSince(this.#sentAt);
    } catch (err) {
      this.#undelivered = false;
      counts.unmeasured++;
      // the database is unavailable, and onResync runs when it is back
      log.debug('could not send the test notification', { err: errorText(err) });
    } finally {
      this.#beating = false;
    }
  }

  /** A notification of a server to itself has arrived. */
  received(id: string): void {
    if (id !== this.#id) return;
    this.#undelivered = false;
    this.receiveSeconds = secondsSince(this.#sentAt);
  }

  async #checkLast(): Promise<void> {
    const { onMissing, counts, log } = this.#options;
    // after a pause of this process, the notification may have arrived without being read
    if (this.#undelivered) await new Promise(setImmediate);
    if (this.#undelivered) {
      counts.unmeasured++;
      onMissing();
    }
    if (this.#undelivered === this.arrives)
      log.warn(this.#undelivered ? 'notifications do not arrive' : 'notifications arrive again');
    this.arrives = !this.#undelivered;
  }
}

const secondsSince = (start: number) => (performance.now() - start) / 1_000;
