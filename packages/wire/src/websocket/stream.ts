import { Duplex } from 'node:stream';
import type { WebSocketClose, WebSocketConnection } from './connection.ts';

/** The byte stream's WebSocket ended with another code than 1000 or 1001. */
export class WebSocketClosedError extends Error {
  readonly code: number;
  readonly reason: string;
  constructor(close: WebSocketClose) {
    super(`WebSocket closed with ${close.code}${close.reason ? `: ${close.reason}` : ''}`, { cause: close.error });
    this.name = 'WebSocketClosedError';
    this.code = close.code;
    this.reason = close.reason;
  }
}

/** Larger frames delay what waits behind them and gain no speed. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/**
 * Uses the WebSocket as a byte pipe: message boundaries have no meaning, and payload is delivered as it arrives,
 * without waiting for its frame. A text message closes it with 1003. The peer's close with 1000 or 1001 is the end.
 * Every other end destroys the stream with WebSocketClosedError. Ending the stream closes the WebSocket with the code
 * that `closeCode` returns (default 1000). Messages have at most `maxMessageBytes` (default 256 KiB). Destroying it with an error drops the socket. Half-close does not exist: the
 * end of one direction ends the other.
 */
export function byteStream(
  connection: WebSocketConnection,
  { closeCode = (): number => 1000, maxMessageBytes = MAX_MESSAGE_BYTES } = {},
): Duplex {
  let waiting: (() => void) | undefined;
  const send = (parts: readonly Uint8Array[], done: () => void) => {
    if (connection.sendBinary(...parts) || !connection.open) done();
    else waiting = done;
  };
  const sendAll = (chunks: readonly Buffer[], done: () => void) => {
    const parts: Buffer[] = [];
    let size = 0;
    for (let chunk of chunks) {
      while (size + chunk.length > maxMessageBytes) {
        parts.push(chunk.subarray(0, maxMessageBytes - size));
        chunk = chunk.subarray(maxMessageBytes - size);
        connection.sendBinary(...parts.splice(0));
        size = 0;
      }
      parts.push(chunk);
      size += chunk.length;
    }
    send(parts, done);
  };
  const released = () => {
    const done = waiting;
    waiting = undefined;
    done?.();
  };
  const stream = new Duplex({
    allowHalfOpen: false,
    decodeStrings: true,
    readableHighWaterMark: 128 * 1024,
    writableHighWaterMark: 128 * 1024,
    read: () => connection.resume(),
    write: (chunk: Buffer, _encoding, done) => sendAll([chunk], done),
    writev: (chunks, done) =>
      sendAll(
        (chunks as { chunk: Buffer }[]).map(({ chunk }) => chunk),
        done,
      ),
    final: (done) => {
      connection.close(closeCode());
      void connection.closed.then(() => done());
    },
    destroy: (err, done) => {
      released();
      if (err) connection.destroy(err);
      else connection.close(closeCode());
      done(err);
    },
  });
  connection.on('drain', released);
  void connection.closed.then((close) => {
    released();
    if (close.code === 1000 || close.code === 1001) stream.push(null);
    else stream.destroy(new WebSocketClosedError(close));
  });
  // Without a listener an error would end the process. Users of the stream see it through pipeline, 'close' or a
  // listener.
  stream.on('error', () => {});
  connection.setByteSink({ bytes: (payload) => stream.destroyed || stream.push(payload) });
  return stream;
}
