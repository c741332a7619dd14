import { byteStream, type WebSocketConnection } from './websocket/index.ts';
import { YamuxSession, type YamuxStream } from './yamux/index.ts';

/** An end that does not answer for this long is unreachable, and its streams end. */
const KEEP_ALIVE = { intervalMs: 5_000, timeoutMs: 10_000 };
/** Windows as large as those of agents, so that the way through a second process is not the slower one. */
const WINDOW = { maxWindow: 1024 * 1024, growth: 64 * 1024 * 1024 };
const MAX_STREAMS = 16_384;

/** A session between two processes of a deployment, over a WebSocket. The one that dialed is the client. */
export function linkSession(
  connection: WebSocketConnection,
  options: { role: 'client' | 'server'; onStream?(stream: YamuxStream): void },
): YamuxSession {
  return new YamuxSession(byteStream(connection), {
    ...options,
    ...WINDOW,
    keepAlive: KEEP_ALIVE,
    maxIncomingStreams: MAX_STREAMS,
    acceptBacklog: MAX_STREAMS,
  });
}
