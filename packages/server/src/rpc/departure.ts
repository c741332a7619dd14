import { AppError } from '@ropewalk/kit';

/** Whether agents and daemons should be with other servers, because this one ends soon and another one is ready. */
export class Departure {
  readonly #onBegin: (() => void)[] = [];
  #isOn = false;

  /** While on, connections that are open move to other servers, and `check` rejects new ones. */
  get isOn(): boolean {
    return this.#isOn;
  }

  set isOn(isOn: boolean) {
    const begins = isOn && !this.#isOn;
    this.#isOn = isOn;
    if (begins) for (const listener of this.#onBegin) listener();
  }

  /** Calls back whenever the departure begins. */
  onBegin(listener: () => void): void {
    this.#onBegin.push(listener);
  }

  /**
   * Checks whether a new connection may stay here.
   * @throws AppError `unavailable` if it belongs to another server
   */
  check(): void {
    if (!this.#isOn) return;
    throw new AppError('unavailable', 'The server is shutting down. Connect again to reach another server.', {
      retryAfter: 1,
    });
  }
}
