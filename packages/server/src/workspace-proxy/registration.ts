import { hostname } from 'node:os';
import type { RegisterWorkspaceProxyRequest, RegisterWorkspaceProxyResponse } from '@ropewalk/contract';
import { type Clock, errorText, isAppError, type Logger } from '@ropewalk/kit';
import type { ProxyAddresses } from './options.ts';
import type { Primary } from './primary.ts';
import type { Siblings } from './siblings.ts';

/** Upstream's interval. */
const EVERY_MS = 30_000;
const AGAIN_MS = 3_000;

interface Parts {
  primary: Primary;
  addresses: ProxyAddresses;
  siblings: Siblings;
  version: string;
  clock: Clock;
  log: Logger;
}

/** Registers this process at the server, every 30 s until `close`. */
export class Registration {
  readonly #parts: Parts;
  /** A random id of this process. */
  readonly #replicaId = crypto.randomUUID();
  readonly #closed = new AbortController();
  #problem: string | undefined = 'This process has not registered yet.';
  #isRegistered = false;
  /** The last registered problem with other processes. */
  #reported = '';
  #running: Promise<void> | undefined;

  constructor(parts: Parts) {
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

  /** `relayAddress`: where the other processes of this proxy reach this one. */
  start(relayAddress: string): void {
    this.#running = this.#repeat(relayAddress);
  }

  async #repeat(relayAddress: string): Promise<void> {
    const { clock, siblings } = this.#parts;
    while (!this.#closed.signal.aborted) {
      await this.#register(relayAddress);
      const isDone = this.#problem === undefined && siblings.problem === this.#reported;
      const wait = isDone ? EVERY_MS : AGAIN_MS;
      await clock.sleep(wait, this.#closed.signal).catch(() => {});
    }
  }

  async #register(relayAddress: string): Promise<void> {
    const { primary, addresses, siblings, version, log } = this.#parts;
    const body: RegisterWorkspaceProxyRequest = {
      access_url: addresses.accessUrl,
      wildcard_hostname: addresses.wildcardHostname,
      // relays of proxies are not part of this version
      derp_enabled: false,
      derp_only: false,
      replica_id: this.#replicaId,
      replica_relay_address: relayAddress,
      replica_error: siblings.problem,
      hostname: hostname(),
      version,
    };
    try {
      const { sibling_replicas: others } = await primary.call<RegisterWorkspaceProxyResponse>('POST', '/register', {
        body,
        signal: this.#closed.signal,
      });
      if (this.#problem !== undefined) log.info('registered at the server', { url: primary.url });
      this.#problem = undefined;
      this.#isRegistered = true;
      this.#reported = body.replica_error ?? '';
      await siblings.set(others);
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
