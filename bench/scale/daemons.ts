// The scripted daemons, in one process.
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { DaemonsOrder, DaemonsReport, Done } from './daemons-process.ts';

export interface Daemons {
  /** Resolves when this many jobs have been completed since the last call. */
  ended(count: number): Promise<Done[]>;
  stop(): void;
}

/** Resolves when all daemons have connected. */
export async function startDaemons(order: DaemonsOrder): Promise<Daemons> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'daemons-process.ts'));
  const jobs: Done[] = [];
  let wanted = 0;
  let settle = Promise.withResolvers<void>();
  let failed: Error | undefined;
  const fail = (reason: string) => {
    failed ??= new Error(reason);
    settle.reject(failed);
  };
  const stop = () => {
    child.removeAllListeners('exit');
    if (child.connected) child.disconnect();
  };
  child.once('exit', (code) => fail(`the daemons' process ended with ${code}`));
  child.on('message', (message: DaemonsReport) => {
    if (message.kind === 'broken') fail(message.reason);
    else if (message.kind === 'ready') settle.resolve();
    else if (jobs.push(...message.jobs) >= wanted) settle.resolve();
  });
  child.send(order);
  try {
    await settle.promise;
  } catch (err) {
    stop();
    throw err;
  }
  return {
    async ended(count) {
      if (failed) throw failed;
      wanted = count;
      if (jobs.length < wanted) {
        settle = Promise.withResolvers();
        await settle.promise;
      }
      wanted = Number.POSITIVE_INFINITY;
      return jobs.splice(0, count);
    },
    stop,
  };
}
