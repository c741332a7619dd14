import type { CoordinateResponse } from '@ropewalk/wire/proto/tailnet';

/** The responses that wait for one peer, read as they come. It ends after the last one. */
export class ResponseQueue implements AsyncIterable<CoordinateResponse> {
  readonly #max: number;
  #waiting: CoordinateResponse[] = [];
  #ended = false;
  #wake: () => void = () => {};

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns false if the queue is full. Responses after the end are dropped. */
  push(response: CoordinateResponse): boolean {
    if (this.#ended) return true;
    if (this.#waiting.length >= this.#max) return false;
    this.#waiting.push(response);
    this.#wake();
    return true;
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CoordinateResponse, void, undefined> {
    for (;;) {
      const response = this.#waiting.shift();
      if (response) yield response;
      else if (this.#ended) return;
      else {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
      }
    }
  }
}
