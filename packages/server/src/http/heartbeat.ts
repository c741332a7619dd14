import type { Duplex } from 'node:stream';
import type { WebSocketConnection } from '@platform/wire/websocket';

const PING_MS = 20_000;
const SILENCE_MS = 60_000;

/**
 * Keeps what stands between from taking an idle connection for a dead one, and ends one whose other end is gone without
 * a word. While its stream is paused nothing is read, answers to pings neither: then it is left alone.
 */
export function heartbeat(
  connection: WebSocketConnection,
  stream: Duplex,
  { pingMs = PING_MS, silenceMs = SILENCE_MS } = {},
): void {
  let heard = performance.now();
  const hear = () => {
    heard = performance.now();
  };
  connection.on('pong', hear);
  const timer = setInterval(() => {
    if (stream.isPaused() || stream.readableLength > 0) hear();
    if (performance.now() - heard > silenceMs) stream.destroy(new Error(`nothing was heard for ${silenceMs} ms`));
    else connection.ping();
  }, pingMs).unref();
  stream.once('close', () => clearInterval(timer));
}
