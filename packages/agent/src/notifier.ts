/** Wakes one waiter for work. A notice given while nobody waits is kept. */
export class Notifier {
  #pending = false;
  #wake: (() => void) | undefined;

  notify(): void {
    this.#pending = true;
    this.#wake?.();
  }

  /** Resolves at the next notice, or after `timeoutMs`. Rejects with the signal's reason. One waiter at a time. */
  async wait(signal: AbortSignal, timeoutMs?: number): Promise<void> {
    signal.throwIfAborted();
    if (!this.#pending) {
      await new Promise<void>((resolve) => {
        const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs);
        const done = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', done);
          resolve();
        };
        signal.addEventListener('abort', done, { once: true });
        this.#wake = done;
      });
      this.#wake = undefined;
    }
    signal.throwIfAborted();
    this.#pending = false;
  }
}
