import { hostname } from 'node:os';
import type { RegisterWorkspaceProxyRequest, RegisterWorkspaceProxyResponse } from '@ropewalk/contract';
import { type Clock, errorText, isAppError, type Logger } from '@ropewalk/kit';
import type { ProxyAddresses } from './options.ts';
import type { Primary } from './primary.ts';

/** Upstream's interval. */
const EVERY_MS = 30_000;
const AGAIN_MS = 3_000;

/** Registers this process at the server, every 30 s until `close`. */
export class Registration {
  readonly #parts: { primary: Primary; addresses: ProxyAddresses; version: string; clock: Clock; log: Logger };
  /** A random id of this process. */
  readonly #replicaId = crypto.randomUUID();
  readonly #closed = new AbortController();
  #problem: string | undefined = 'This process has not registered yet.';
  #isRegistered = false;
  #running: Promise<void> | undefined;

  constructor(parts: { primary: Primary; addresses: ProxyAddresses; version: string; clock: Clock; log: Logger }) {
    this.#parts = parts;
  }

  /** Why the last registration failed. Undefined if it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Whether a registration has ever succeeded. */
  get isRegistered(): boolean {
    return this.#isRegistered;
  }

  start(): void {
    this.#running = this.#repeat();
  }

  async #repeat(): Promise<void> {
    const { clock } = this.#parts;
    while (!this.#closed.signal.aborted) {
      await this.#register();
      const wait = this.#problem === undefined ? EVERY_MS : AGAIN_MS;
      await clock.sleep(wait, this.#closed.signal).catch(() => {});
    }
  }

  async #register(): Promise<void> {
    const { primary, addresses, version, log } = this.#parts;
    const body: RegisterWorkspaceProxyRequest = {
      access_url: addresses.accessUrl,
      wildcard_hostname: addresses.wildcardHostname,
      // relays of proxies are not part of this version
      derp_enabled: false,
      derp_only: false,
      replica_id: this.#replicaId,
      hostname: hostname(),
      version,
    };
    try {
      await primary.call<RegisterWorkspaceProxyResponse>('POST', '/register', { body, signal: this.#closed.signal });
      if (this.#problem !== undefined) log.info('registered at the server', { url: primary.url });
      this.#problem = undefined;
      this.#isRegistered = true;
    } catch (err) {
      if (this.#closed.signal.aborted) return;
      const why = isAppError(err) && err.detail !== undefined ? `${err.message} ${err.detail}` : errorText(err);
      if (this.#problem !== why) log.warn('could not register at the server', { url: primary.url, err: why });
      this.#problem = why;
    }
  }

  /** The server forgets this process. If it cannot be reached, it does so after 75 s. Never rejects. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#running;
    const { primary, log } = this.#parts;
    await primary
      .call('POST', '/deregister', { body: { replica_id: this.#replicaId } })
      .catch((err) => log.debug('could not deregister', { err: errorText(err) }));
  }
}
