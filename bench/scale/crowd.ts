// The crowd of scripted agents, in few processes.
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { CrowdCut, CrowdOrder, CrowdReport } from './crowd-process.ts';
import { Histogram, type Times } from './histogram.ts';

export interface Crowd {
  /** Until the last agent had reported its start. */
  ms: number;
  retries: number;
  /** The time of each agent until it had reported its start. */
  connecting: Histogram;
  /** How often an agent has connected again. */
  again(): number;
  /** Connections that ended, with the reason. */
  lost: string[];
  /** Ends the connections of this share of the agents. */
  cut(share: number): void;
  stop(): Promise<void>;
}

interface Part {
  child: ChildProcess;
  ready: Promise<{ ms: number; retries: number; connecting: Times }>;
}

/** Resolves when all agents have connected. They are spread over this many processes. */
export async function startCrowd(order: CrowdOrder, processes = 1): Promise<Crowd> {
  const lost: string[] = [];
  let again = 0;
  const start = (tokens: string[]): Part => {
    const child = fork(join(import.meta.dirname, 'crowd-process.ts'));
    const ready = Promise.withResolvers<Awaited<Part['ready']>>();
    child.on('message', (message: CrowdReport) => {
      if (message.kind === 'ready') ready.resolve(message);
      else if (message.kind === 'again') again += 1;
      else if (message.kind === 'broken') ready.reject(new Error(message.reason));
      else lost.push(message.reason);
    });
    child.once('exit', (code) => ready.reject(new Error(`the crowd's process ended with ${code}`)));
    child.send({ ...order, tokens });
    return { child, ready: ready.promise };
  };
  const parts = Array.from({ length: processes }, (_, i) =>
    start(order.tokens.filter((_token, n) => n % processes === i)),
  );
  const stop = async () => {
    await Promise.all(
      parts.map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const gone = new Promise((resolve) => child.once('exit', resolve));
        if (child.connected) child.disconnect();
        await gone;
      }),
    );
  };
  try {
    const ready = await Promise.all(parts.map((part) => part.ready));
    return {
      ms: Math.max(...ready.map(({ ms }) => ms)),
      retries: ready.reduce((sum, { retries }) => sum + retries, 0),
      connecting: Histogram.of(...ready.map(({ connecting }) => connecting)),
      again: () => again,
      lost,
      cut(share) {
        for (const { child } of parts) child.send({ cut: share } satisfies CrowdCut);
      },
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}
