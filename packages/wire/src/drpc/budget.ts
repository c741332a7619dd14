import { DrpcError } from './frames.ts';

/**
 * Bytes of messages that a peer's calls may hold here together: the pieces of messages that are not complete, and
 * messages that wait for their handler or are in its hands. Without it a peer may hold a whole message for each call.
 * A budget may be part of a larger one that several peers share.
 */
export class MessageBudget {
  readonly #limit: number;
  readonly #within: MessageBudget | undefined;
  #held = 0;

  constructor(limit: number, within?: MessageBudget) {
    this.#limit = limit;
    this.#within = within;
  }

  /** @throws DrpcError of code 8 where that is more than there is; nothing is taken then. */
  take(bytes: number): void {
    if (this.#held + bytes > this.#limit) {
      throw new DrpcError(`the messages of this connection's calls are longer than ${this.#limit} bytes together`, 8);
    }
    this.#within?.take(bytes);
    this.#held += bytes;
  }

  give(bytes: number): void {
    this.#held -= bytes;
    this.#within?.give(bytes);
  }
}
