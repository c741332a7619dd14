import type { Duplex } from 'node:stream';
import type { Service } from './service.ts';

const CHUNK = Buffer.alloc(128 * 1024);
const REPORT_MS = 100;
const LONGEST_MS = 10 * 60_000;

/** Sends blocks as fast as the stream accepts them, for this time, and ends it. */
export function sendBlocks(stream: Duplex, ms: number, block: Buffer): void {
  const end = performance.now() + ms;
  const more = () => {
    while (!stream.destroyed && !stream.writableEnded) {
      if (performance.now() >= end) return void stream.end();
      if (!stream.write(block)) return;
    }
  };
  stream.on('drain', more);
  stream.resume();
  more();
}

/** Sends the number of bytes received so far, repeatedly, as 8 bytes big-endian. */
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
 * The length of the client's request at the start of the stream: `d` (down) or `u`, then milliseconds as 4 bytes
 * big-endian.
 */
const ASKED_BYTES = 5;
const ASK_TIMEOUT_MS = 10_000;

/**
 * `{service: 'speedtest'}`: sends meaningless bytes for the requested time, or receives and counts them. Stops with the
 * stream.
 */
export const speedtestService: Service = ({ accept }) => {
  const stream = accept();
  stream.on('error', () => {});
  const timer = setTimeout(() => stream.destroy(), ASK_TIMEOUT_MS);
  const read = () => {
    const asked = stream.read(ASKED_BYTES) as Buffer | null;
    if (!asked) return;
    clearTimeout(timer);
    stream.off('readable', read);
    const ms = asked.length === ASKED_BYTES ? asked.readUInt32BE(1) : 0;
    if (ms < 1 || ms > LONGEST_MS) stream.destroy();
    else if (asked[0] === 0x64) sendBlocks(stream, ms, CHUNK);
    else if (asked[0] === 0x75) receive(stream);
    else stream.destroy();
  };
  stream.on('close', () => clearTimeout(timer));
  stream.on('readable', read);
};
