// Turns the request of this project's speed test into upstream's, whose agent neither counts nor reports what arrives.
import { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';

const VERSION = 2;
const NS_PER_MS = 1e6;
const UPLOAD = 'u'.charCodeAt(0);
const COUNT_BYTES = 8;
const NEWLINE = 0x0a;
const MAX_ANSWER_BYTES = 4_096;

/**
 * A stream that takes `d` or `u` and the time in ms (4 bytes, big-endian), over a connection to upstream's speed test. For
 * `u`, it returns after each write how many bytes the connection has taken (8 bytes, big-endian).
 */
export function speedtest(connection: Duplex): Duplex {
  let isAsked = false;
  let taken = 0;
  let head: Buffer | undefined = Buffer.alloc(0);
  const stream: Duplex = new Duplex({
    read: () => void connection.resume(),
    write(chunk: Buffer, _encoding, done) {
      if (!isAsked) {
        isAsked = true;
        const direction = chunk[0] === UPLOAD ? 1 : 0;
        const time = chunk.readUInt32BE(1) * NS_PER_MS;
        connection.write(`${JSON.stringify({ version: VERSION, time, direction })}\n`, done);
        return;
      }
      connection.write(chunk, (err) => {
        if (err) return done(err);
        taken += chunk.length;
        const count = Buffer.alloc(COUNT_BYTES);
        count.writeBigUInt64BE(BigInt(taken));
        stream.push(count);
        done();
      });
    },
    destroy(err, done) {
      connection.destroy();
      done(err);
    },
  });
  connection.on('data', (chunk: Buffer) => {
    let bytes = chunk;
    if (head !== undefined) {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf(NEWLINE);
      if (end < 0 && head.length <= MAX_ANSWER_BYTES) return;
      const why = rejectionOf(head.subarray(0, Math.max(end, 0)));
      if (why) return void stream.destroy(new AppError('unavailable', `The agent rejected the speed test: ${why}`));
      bytes = head.subarray(end + 1);
      head = undefined;
    }
    if (bytes.length > 0 && !stream.push(bytes)) connection.pause();
  });
  connection.on('error', (err) => stream.destroy(err));
  connection.on('end', () => stream.push(null));
  return stream;
}

/** Why the agent does not run the test. Undefined if it does. */
function rejectionOf(line: Buffer): string | undefined {
  try {
    return (JSON.parse(line.toString('utf8')) as { error?: string }).error || undefined;
  } catch {
    return 'its answer is not JSON';
  }
}
