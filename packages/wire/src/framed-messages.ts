import type { Duplex } from 'node:stream';
import { ByteCollector } from './byte-collector.ts';

const HEADER_BYTES = 4;

/** Frames a message for a stream: its length as four bytes big-endian, then its bytes. */
export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(HEADER_BYTES + message.length);
  framed.writeUInt32BE(message.length);
  framed.set(message, HEADER_BYTES);
  return framed;
}

/**
 * Reads framed messages of up to `maxBytes` from a stream until it ends. Destroys the stream when the loop ends. Its
 * memory grows with the received bytes, not with announced lengths.
 * @throws RangeError for a longer message, and the stream's error
 */
export async function* framedMessages(stream: Duplex, maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
  const collected = new ByteCollector(HEADER_BYTES + maxBytes);
  let length: number | undefined;
  for await (const chunk of stream as AsyncIterable<Buffer>)
    for (let rest = chunk; rest.length > 0; ) {
      const wanted = (length ?? HEADER_BYTES) - collected.size;
      collected.append(rest.subarray(0, wanted));
      rest = rest.subarray(wanted);
      if (length === undefined && collected.size === HEADER_BYTES) {
        length = collected.take().readUInt32BE();
        if (length > maxBytes) throw new RangeError(`A message has ${length} bytes: at most ${maxBytes}`);
      }
      if (length === undefined || collected.size < length) continue;
      length = undefined;
      yield collected.take();
    }
}
