import type { KeyObject } from 'node:crypto';
import type { CryptoKeysResponse } from '@ropewalk/contract';
import { type Clock, errorText, type Logger } from '@ropewalk/kit';
import { publicKeyOf, verifiedClaims } from '@ropewalk/kit/signed-token';
import type { TicketClaims } from '@ropewalk/wire/proxy-link';
import { decodeGrant, type ProxyGrant } from '../app/workspace-proxy/grant-token.ts';
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
    const grant = decodeGrant(this.#parts.proxyId, token, (sequence) => this.#keyOf(sequence));
    return grant && grant.expires > this.#parts.clock.now().getTime() ? grant : undefined;
  }

  /** The id of the agent whose ticket for this proxy this is. Undefined for any other text, and for one that has expired. */
  agentOf(ticket: string): string | undefined {
    const claims = verifiedClaims(ticket, (sequence) => this.#keyOf(sequence)) as Partial<TicketClaims> | undefined;
    const isValid = claims?.aud === this.#parts.proxyId && claims.exp! * 1_000 > this.#parts.clock.now().getTime();
    return isValid ? claims.ticket : undefined;
  }

  #keyOf(sequence: number): KeyObject | undefined {
    const found = this.#keys.get(sequence);
    return found && found.deletesAt > this.#parts.clock.now().getTime() ? found.key : undefined;
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
