import type { TunnelRequest } from '@ropewalk/wire/tunnel';

/** So long a permit is valid, and what is open under it without another one, in ms: as long as an outage may take. */
const PERMIT_MS = 10 * 60_000;
const RENEW_PERMIT_MS = 4 * 60_000;

export interface PermitParts {
  id: string;
  sign(permit: { id: string; agent: string; request: TunnelRequest; lifetimeMs: number }): string;
  /** Makes the agent end what is open. */
  end(id: string): void;
  agent: string;
  request: TunnelRequest;
  lifetimeMs?: number;
  renewMs?: number;
}

/** A permit as a line of news (see proxy-link.ts of the wire). */
export const permitLine = (permit: string): string => `permit ${permit}\n`;

/** The permits of one use of a proxy. All have the same id. */
export class Permits {
  readonly #parts: Required<PermitParts>;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(parts: PermitParts) {
    this.#parts = { lifetimeMs: PERMIT_MS, renewMs: RENEW_PERMIT_MS, ...parts };
  }

  /** Sends a permit now, and a newer one every few minutes until `stop`. */
  sendTo(receive: (permit: string) => void): void {
    const { id, agent, request, sign, lifetimeMs, renewMs } = this.#parts;
    const send = () => receive(sign({ id, agent, request, lifetimeMs }));
    send();
    this.#timer = setInterval(send, renewMs);
    this.#timer.unref();
  }

  end(): void {
    this.stop(true);
  }

  /** `ends`: whether the agent ends what is open. Otherwise it ends with the last permit. */
  stop(ends: boolean): void {
    clearInterval(this.#timer);
    if (ends && !this.#isOver) this.#parts.end(this.#parts.id);
    this.#isOver = true;
  }
}
