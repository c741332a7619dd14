/** Lets a loop wait between two looks, for a wake-up or for a while. */
export interface WakeUp {
  /** Ends the wait that runs, or else the next one. */
  wake(): void;
  /** Resolves at the next wake-up or after `ms`. A wake-up since the last wait makes it resolve immediately. */
  wait(ms: number): Promise<void>;
}

export function createWakeUp(): WakeUp {
  let pending = false;
  let rouse = () => {};
  return {
    wake() {
      pending = true;
      rouse();
    },
    async wait(ms) {
      if (!pending) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          rouse = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        rouse = () => {};
      }
      pending = false;
    },
  };
}
