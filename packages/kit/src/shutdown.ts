import type { Logger } from './log.ts';

/**
 * Closes resources in reverse order of their start. Each step has its own time limit, and its failure does not stop the
 * others.
 */
export interface Closer {
  add(name: string, close: () => Promise<void> | void, timeoutMs?: number): void;
  close(): Promise<void>;
}

export function createCloser(log: Logger): Closer {
  const steps: { name: string; close: () => Promise<void> | void; timeoutMs: number }[] = [];
  let closing: Promise<void> | undefined;
  const run = async () => {
    for (const step of steps.reverse()) {
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not closed within ${step.timeoutMs} ms`)), step.timeoutMs);
      });
      try {
        await Promise.race([step.close(), limit]);
      } catch (err) {
        log.error('close failed', { step: step.name, err });
      } finally {
        clearTimeout(timer);
      }
    }
  };
  return {
    add(name, close, timeoutMs = 10_000) {
      steps.push({ name, close, timeoutMs });
    },
    close() {
      closing ??= run();
      return closing;
    },
  };
}
