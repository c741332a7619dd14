import { DrpcError } from './frames.ts';

/**
 * Limits the bytes of messages that a peer's calls hold here together: pieces of incomplete messages, and messages that
 * wait for their handler or are in use by it. Without it a peer could hold a whole message for each call. A budget may
 * be part of a larger one that several peers share.
 */
export class MessageBudget {
  readonly #limit: number;
  readonly #within: MessageBudget | undefined;
  #held = 0;

  constructor(limit: number, within?: MessageBudget) {
    this.#limit = limit;
    this.#within = within;
  }

  /** @throws DrpcError with code 8 if `bytes` exceeds the budget. The budget is unchanged then. */
  take(bytes: number): void {
    if (this.#held + bytes > this.#limit) {
      throw new DrpcError(`the messages of this connection's calls exceed ${this.#limit} bytes together`, 8);
    }
    this.#within?.take(bytes);
    this.#held += bytes;
  }

  give(bytes: number): void {
    this.#held -= bytes;
    this.#within?.give(bytes);
  }
}
