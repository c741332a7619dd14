import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';

export interface Interval {
  /** Since the start of the measurement. */
  start_time_seconds: number;
  end_time_seconds: number;
  throughput_mbits: number;
}
export type Direction = 'up' | 'down';

const INTERVAL_MS = 1_000;
const CHUNK = Buffer.alloc(128 * 1024);
const COUNT_BYTES = 8;

function interval(fromMs: number, toMs: number, bytes: number): Interval {
  const seconds = (toMs - fromMs) / 1_000;
  return {
    start_time_seconds: fromMs / 1_000,
    end_time_seconds: toMs / 1_000,
    throughput_mbits: seconds > 0 ? (bytes * 8) / 1e6 / seconds : 0,
  };
}

/**
 * Sends bytes in one direction on a stream to the agent's service `speedtest`, and measures the bytes that arrive. For
 * `up`, the agent counts them. @throws AppError `unavailable` when the stream ends early.
 */
export async function measureThroughput(
  stream: Duplex,
  direction: Direction,
  forMs: number,
  signal: AbortSignal,
): Promise<{ overall: Interval; intervals: Interval[] }> {
  const ask = Buffer.alloc(5);
  ask.write(direction === 'down' ? 'd' : 'u', 'latin1');
  ask.writeUInt32BE(forMs, 1);
  stream.write(ask);
  const from = performance.now();
  const intervals: Interval[] = [];
  let arrived = 0;
  let before = { at: 0, arrived: 0 };
  const mark = () => {
    const at = performance.now() - from;
    intervals.push(interval(before.at, at, arrived - before.arrived));
    before = { at, arrived };
  };
  const ticks = setInterval(mark, INTERVAL_MS);
  const stop = () => stream.destroy();
  signal.addEventListener('abort', stop, { once: true });
  let end: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      end = setTimeout(resolve, forMs);
      const broken = (err?: Error) =>
        reject(new AppError('unavailable', err?.message || 'The connection to the agent was lost.', { cause: err }));
      stream.on('error', broken);
      stream.on('close', () => broken());
      stream.on('end', () => resolve());
      if (direction === 'down') {
        stream.on('data', (chunk: Buffer) => {
          arrived += chunk.length;
        });
        return;
      }
      let held: Buffer = Buffer.alloc(0);
      stream.on('data', (chunk: Buffer) => {
        held = Buffer.concat([held, chunk]);
        for (; held.length >= COUNT_BYTES; held = held.subarray(COUNT_BYTES)) arrived = Number(held.readBigUInt64BE(0));
      });
      const more = () => {
        while (!stream.destroyed && stream.write(CHUNK));
      };
      stream.on('drain', more);
      more();
    });
  } finally {
    clearInterval(ticks);
    clearTimeout(end);
    signal.removeEventListener('abort', stop);
    stream.destroy();
  }
  // a short rest of the last second says little, unless it is the only interval
  if (performance.now() - from - before.at > INTERVAL_MS / 2 || intervals.length === 0) mark();
  return { overall: interval(0, before.at, arrived), intervals };
}
