import type { Duplex } from 'node:stream';
import type { WebSocketConnection } from '@platform/wire/websocket';

const PING_MS = 20_000;
const SILENCE_MS = 60_000;

/**
 * Sends pings, so that proxies do not close an idle connection, and ends a connection whose other end does not answer.
 * While the stream is paused, answers to pings are not read either. Then the connection stays. It counts pings without
 * an answer, because a server that was stopped for a while asked nothing meanwhile.
 */
export function heartbeat(
  connection: WebSocketConnection,
  stream: Duplex,
  { pingMs = PING_MS, silenceMs = SILENCE_MS } = {},
): void {
  const most = Math.ceil(silenceMs / pingMs);
  let unanswered = 0;
  connection.on('pong', () => {
    unanswered = 0;
  });
  const timer = setInterval(() => {
    if (stream.isPaused() || stream.readableLength > 0) unanswered = 0;
    if (unanswered === most) return void stream.destroy(new Error(`no answer to pings for ${silenceMs} ms`));
    unanswered++;
    connection.ping();
  }, pingMs).unref();
  stream.once('close', () => clearInterval(timer));
}
