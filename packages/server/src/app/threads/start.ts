import { Worker } from 'node:worker_threads';
import type { Logger } from '@ropewalk/kit';
import { createPool, type Pool } from './pool.ts';

const MIB = 1024 * 1024;

declare global {
  /** Set in the single executable: the script of a worker thread. */
  var PLATFORM_WORKER: string | undefined;
}

function start({ memoryMb }: { memoryMb: number }): Worker {
  const bundled = globalThis.PLATFORM_WORKER;
  return new Worker(bundled ?? new URL('./thread.ts', import.meta.url), {
    eval: bundled !== undefined,
    name: 'work',
    // a thread gets neither the server's arguments nor its environment, which has secrets
    argv: [],
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: 32 },
  });
}

/** The worker threads of a server. */
export interface Work {
  /** For expressions and values that people wrote: short tasks. */
  evaluation: Pool;
  /** For archives: tasks of several seconds, each with up to 300 MB. */
  archives: Pool;
  close(): Promise<void>;
}

export function createWork(log: Logger): Work {
  const broke = (err: Error) => log.error('a worker thread failed', { err });
  const idleMs = 10_000;
  const evaluation = createPool({
    start,
    broke,
    threads: 2,
    budgetMs: 3_000,
    memoryMb: 256,
    idleMs,
    mostWaitingEach: 50,
    mostWaiting: 500,
  });
  const archives = createPool({
    start,
    broke,
    threads: 1,
    budgetMs: 30_000,
    memoryMb: 256,
    idleMs,
    mostWaitingEach: 8,
    mostWaiting: 40,
    // two of the largest uploads for one person, and five in all
    mostBytesEach: 200 * MIB,
    mostBytes: 500 * MIB,
  });
  return {
    evaluation,
    archives,
    async close() {
      await Promise.all([evaluation.close(), archives.close()]);
    },
  };
}
