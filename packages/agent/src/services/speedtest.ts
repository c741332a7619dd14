import type { Duplex } from 'node:stream';
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

/** What the client asks for, at the beginning of the stream: `d` (down) or `u`, then milliseconds as 4 bytes big-endian. */
const ASKED_BYTES = 5;
const ASK_TIMEOUT_MS = 10_000;

/**
 * `{service: 'speedtest'}`: sends bytes of no meaning for as long as it is asked to, or takes them and counts. Stops when
 * the stream does.
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
    else if (asked[0] === 0x64) send(stream, ms);
    else if (asked[0] === 0x75) receive(stream);
    else stream.destroy();
  };
  stream.on('close', () => clearTimeout(timer));
  stream.on('readable', read);
};
