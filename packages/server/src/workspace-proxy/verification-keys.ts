import type { KeyObject } from 'node:crypto';
import type { CryptoKeysResponse } from '@ropewalk/contract';
import { type Clock, errorText, type Logger } from '@ropewalk/kit';
import { decodeGrant, type ProxyGrant, publicKeyOf } from '../app/workspace-proxy/grant-token.ts';
import type { Primary } from './primary.ts';

/** The next key is listed a week before it signs. */
const REFRESH_MS = 3_600_000;
/** An unknown key is asked for at most this often: anyone can send a token that names one. */
const UNKNOWN_MS = 5_000;

/** The server's public keys, which verify grants without asking it. */
export class VerificationKeys {
  readonly #parts: { primary: Primary; proxyId: string; clock: Clock; log: Logger };
  #keys = new Map<number, { key: KeyObject; deletesAt: number }>();
  #fetchedAt = -Infinity;
  #fetching: Promise<void> | undefined;
  readonly #timer: NodeJS.Timeout;

  constructor(parts: { primary: Primary; proxyId: string; clock: Clock; log: Logger }) {
    this.#parts = parts;
    this.#timer = setInterval(() => {
      this.refresh().catch((err) => parts.log.warn('could not renew the keys of the server', { err: errorText(err) }));
    }, REFRESH_MS);
    this.#timer.unref();
  }

  /** The grant in a token for this proxy, if it has not expired. */
  read(token: string): ProxyGrant | undefined {
    const now = this.#parts.clock.now().getTime();
    const grant = decodeGrant(this.#parts.proxyId, token, (sequence) => {
      const found = this.#keys.get(sequence);
      return found && found.deletesAt > now ? found.key : undefined;
    });
    return grant && grant.expires > now ? grant : undefined;
  }

  /** The same for a token that the server has signed now, with a key that may be new. */
  async readFresh(token: string): Promise<ProxyGrant | undefined> {
    const found = this.read(token);
    if (found || this.#parts.clock.monotonic() - this.#fetchedAt < UNKNOWN_MS) return found;
    await this.refresh();
    return this.read(token);
  }

  /** @throws AppError as Primary does */
  refresh(): Promise<void> {
    this.#fetching ??= this.#refresh().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #refresh(): Promise<void> {
    const { primary, clock } = this.#parts;
    const { crypto_keys } = await primary.call<CryptoKeysResponse>('GET', '/crypto-keys?feature=workspace_apps_token');
    this.#fetchedAt = clock.monotonic();
    this.#keys = new Map(
      crypto_keys.flatMap(({ sequence, secret, deletes_at }) => {
        const key = publicKeyOf(secret);
        return key ? [[sequence, { key, deletesAt: Date.parse(deletes_at) }]] : [];
      }),
    );
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
