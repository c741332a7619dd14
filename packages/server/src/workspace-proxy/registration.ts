import { hostname } from 'node:os';
import type { RegisterWorkspaceProxyRequest, RegisterWorkspaceProxyResponse } from '@ropewalk/contract';
import { type Clock, errorText, isAppError, type Logger } from '@ropewalk/kit';
import type { ProxyAddresses, WorkspaceProxyOptions } from './options.ts';
import type { Primary } from './primary.ts';
import type { Siblings } from './siblings.ts';

/** Upstream's interval. */
const EVERY_MS = 30_000;
const AGAIN_MS = 3_000;

interface Parts {
  primary: Primary;
  /** A random id of this process. */
  processId: string;
  addresses: ProxyAddresses;
  options: Pick<WorkspaceProxyOptions, 'derpServerEnable' | 'derpOnly'>;
  siblings: Siblings;
  version: string;
  clock: Clock;
  log: Logger;
}

/** Registers this process at the server, every 30 s until `close`. */
export class Registration {
  readonly #parts: Parts;
  readonly #closed = new AbortController();
  #problem: string | undefined = 'This process has not registered yet.';
  #isRegistered = false;
  /** The last registered problem with other processes. */
  #reported = '';
  #running: Promise<void> | undefined;
  /** Ends the wait for the next registration. */
  #soon = new AbortController();

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
      this.#soon = new AbortController();
      const ended = AbortSignal.any([this.#closed.signal, this.#soon.signal]);
      await this.#register(relayAddress);
      const isDone = this.#problem === undefined && siblings.problem === this.#reported;
      await clock.sleep(isDone ? EVERY_MS : AGAIN_MS, ended).catch(() => {});
    }
  }

  /** Registers now: the server forgets a process whose connection has ended, unless it registers again. */
  again(): void {
    this.#soon.abort();
  }

  async #register(relayAddress: string): Promise<void> {
    const { primary, processId, addresses, options, siblings, version, log } = this.#parts;
    const body: RegisterWorkspaceProxyRequest = {
      access_url: addresses.accessUrl,
      wildcard_hostname: addresses.wildcardHostname,
      derp_enabled: options.derpServerEnable,
      derp_only: options.derpOnly,
      replica_id: processId,
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
    const { primary, processId, log } = this.#parts;
    await primary
      .call('POST', '/deregister', { body: { replica_id: processId } })
      .catch((err) => log.debug('could not deregister', { err: errorText(err) }));
  }
}
