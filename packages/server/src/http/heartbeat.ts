import type { Duplex } from 'node:stream';
import type { WebSocketConnection } from '@platform/wire/websocket';

const PING_MS = 20_000;
const SILENCE_MS = 60_000;

/**
 * Sends pings, so that proxies do not close an idle connection, and ends a connection whose other end does not answer.
 * While the stream is paused, answers to pings are not read either. Then the connection stays.
 */
export function heartbeat(
  connection: WebSocketConnection,
  stream: Duplex,
  { pingMs = PING_MS, silenceMs = SILENCE_MS } = {},
): void {
  let lastSign = performance.now();
  const note = () => {
    lastSign = performance.now();
  };
  connection.on('pong', note);
  const timer = setInterval(() => {
    if (stream.isPaused() || stream.readableLength > 0) note();
    if (performance.now() - lastSign > silenceMs) stream.destroy(new Error(`no answer to pings for ${silenceMs} ms`));
    else connection.ping();
  }, pingMs).unref();
  stream.once('close', () => clearInterval(timer));
}
