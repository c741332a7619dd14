import type { Server, ServerResponse } from 'node:http';
import type { Clock } from '@ropewalk/kit';
import { type Kept, ShortLived } from '../app/values/short-lived.ts';

const LOOK_EVERY_MS = 20;

interface Waiting extends Kept {
  answer: ServerResponse;
}

/** The requests of an HTTP server that have no answer yet, so that it can end without losing one. */
export class Unanswered {
  readonly #answers = new ShortLived<Waiting>();
  #isLeaving = false;

  constructor(server: Server) {
    server.prependListener('request', (_request, answer: ServerResponse) => {
      if (this.#isLeaving) answer.shouldKeepAlive = false;
      const waiting: Waiting = { at: -1, answer };
      this.#answers.add(waiting);
      answer.on('close', () => this.#answers.delete(waiting));
    });
  }

  /** From now on each answer closes its connection, so that clients and load balancers open the next one elsewhere. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Resolves when every request has its answer, and streams have begun, but after `limitMs` in any case. */
  async none(clock: Clock, limitMs: number): Promise<void> {
    const until = clock.monotonic() + limitMs;
    while (this.#answers.all().some(isMissing) && clock.monotonic() < until) await clock.sleep(LOOK_EVERY_MS);
  }
}

const isMissing = ({ answer: { headersSent, writableEnded, writableFinished } }: Waiting) =>
  !headersSent || (writableEnded && !writableFinished);
