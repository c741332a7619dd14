import type { Duplex } from 'node:stream';
import { AppError } from '@platform/kit';
import type { Service } from './service.ts';

const CHUNK = Buffer.alloc(128 * 1024);
const REPORT_MS = 100;
const LONGEST_MS = 10 * 60_000;

/** Sends as fast as the stream takes it until the time is over. */
function send(stream: Duplex, ms: number): void {
  const end = performance.now() + ms;
  const more = () => {
    while (!stream.destroyed) {
      if (performance.now() >= end) return void stream.end();
      if (!stream.write(CHUNK)) return;
    }
  };
  stream.on('drain', more);
  stream.resume();
  more();
}

/** Says, as 8 bytes big-endian and time and again, how many bytes have come so far. */
function receive(stream: Duplex): void {
  let got = 0n;
  stream.on('data', (chunk: Buffer) => {
    got += BigInt(chunk.length);
  });
  const timer = setInterval(() => {
    const report = Buffer.alloc(8);
    report.writeBigUInt64BE(got);
    if (!stream.writableEnded) stream.write(report);
  }, REPORT_MS);
  stream.on('end', () => stream.end());
  stream.on('close', () => clearInterval(timer));
}

/**
 * `{service: 'speedtest', direction: 'down' | 'up', ms}`: sends bytes of no meaning for so long, or takes them and
 * counts. Stops when the stream does.
 */
export const speedtestService: Service = ({ request, accept }) => {
  const { direction, ms } = request;
  if (direction !== 'down' && direction !== 'up') throw new AppError('invalid', 'The direction must be up or down.');
  if (!Number.isInteger(ms) || (ms as number) < 1 || (ms as number) > LONGEST_MS) {
    throw new AppError('invalid', 'A speed test takes from 1 ms to 10 minutes.');
  }
  const stream = accept();
  stream.on('error', () => {});
  if (direction === 'down') send(stream, ms as number);
  else receive(stream);
};
