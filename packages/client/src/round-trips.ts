import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';

const PROBE_BYTES = 8;

/** Measures round trips to the agent on a stream to its service `ping`. One at a time. */
export interface RoundTrips {
  /** The round-trip time in ms. @throws AppError `timeout` without an answer, `unavailable` when the stream ended. */
  measure(timeoutMs: number): Promise<number>;
  close(): void;
}

export function roundTrips(stream: Duplex): RoundTrips {
  let held: Buffer = Buffer.alloc(0);
  let arrived: (probe: Buffer) => void = () => {};
  let lost: (err: Error) => void = () => {};
  const gone = (err?: Error) =>
    lost(new AppError('unavailable', err?.message || 'The connection to the agent was lost.', { cause: err }));
  stream.on('data', (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    for (; held.length >= PROBE_BYTES; held = held.subarray(PROBE_BYTES)) arrived(held.subarray(0, PROBE_BYTES));
  });
  stream.on('error', gone);
  stream.on('close', () => gone());
  return {
    measure(timeoutMs) {
      return new Promise((resolve, reject) => {
        if (stream.destroyed) return reject(new AppError('unavailable', 'The connection to the agent was lost.'));
        const probe = randomBytes(PROBE_BYTES);
        const from = performance.now();
        const settle = (end: () => void) => {
          clearTimeout(timer);
          lost = () => {};
          arrived = () => {};
          end();
        };
        const timer = setTimeout(
          () => settle(() => reject(new AppError('timeout', `No answer within ${timeoutMs} ms.`))),
          timeoutMs,
        );
        lost = (err) => settle(() => reject(err));
        // a late answer belongs to an earlier probe
        arrived = (bytes) => {
          if (bytes.equals(probe)) settle(() => resolve(performance.now() - from));
        };
        stream.write(probe);
      });
    },
    close: () => stream.destroy(),
  };
}
