import type { Duplex } from 'node:stream';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { OnProbe } from '../app/context/observed-requests.ts';

const PING_MS = 20_000;
const SILENCE_MS = 60_000;

export interface Beats {
  /** Whether answers to pings cannot arrive now, because the server does not read or the other end has much to read. */
  busy(): boolean;
  /** Ends the connection, whose other end does not answer. */
  end(why: Error): void;
  pingMs?: number;
  silenceMs?: number;
}

const observers = new WeakMap<WebSocketConnection, OnProbe>();

/** Calls `observe` with the result of each ping of a connection. */
export const observePings = (connection: WebSocketConnection, observe: OnProbe): void =>
  void observers.set(connection, observe);

/**
 * Sends pings, so that proxies do not close an idle connection, and ends a connection whose other end does not answer.
 * Otherwise the connections of a client that lost its network would count as open for many minutes. It counts pings
 * without an answer, because a server that was stopped for a while asked nothing meanwhile. Ends with the connection.
 */
export function watchSilence(
  connection: WebSocketConnection,
  { busy, end, pingMs = PING_MS, silenceMs = SILENCE_MS }: Beats,
): void {
  const most = Math.ceil(silenceMs / pingMs);
  let unanswered = 0;
  /** Reports the result of the pings since the last result. */
  const over: OnProbe = (result) => {
    if (unanswered > 0) observers.get(connection)?.(result);
    unanswered = 0;
  };
  connection.on('pong', () => over('ok'));
  const timer = setInterval(() => {
    if (busy()) unanswered = 0;
    if (unanswered === most) {
      over('timeout');
      return end(new Error(`no answer to pings for ${silenceMs} ms`));
    }
    unanswered++;
    connection.ping();
  }, pingMs).unref();
  connection.once('close', ({ code }) => {
    clearInterval(timer);
    if (connection.closedHere) over('canceled');
    else over(code === 1006 ? 'error' : 'peer_closed');
  });
}

/** The same for a connection whose bytes a stream carries. */
export function heartbeat(
  connection: WebSocketConnection,
  stream: Duplex,
  times: Pick<Beats, 'pingMs' | 'silenceMs'> = {},
): void {
  watchSilence(connection, {
    ...times,
    busy: () => stream.isPaused() || stream.readableLength > 0,
    end: (why) => void stream.destroy(why),
  });
}
