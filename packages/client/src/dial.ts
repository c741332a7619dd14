import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { WebSocketDialError } from '@ropewalk/wire/websocket';
import type { Client } from './client.ts';
import { errorOf, UnreachableError } from './errors.ts';

/** Opens a WebSocket route, and returns its answer too. @throws ApiError, UnreachableError */
export async function dial(client: Client, path: string, signal?: AbortSignal) {
  const { dialWebSocket } = await import('@ropewalk/wire/websocket');
  const seen = (headers: IncomingHttpHeaders) => {
    const answered = { get: (name: string) => String(headers[name.toLowerCase()] ?? '') || null };
    client.onAnswer?.(answered, 'stream');
    return answered;
  };
  try {
    const dialled = await dialWebSocket(`${client.url}/api/v2${path}`, {
      ...client.tls,
      headers: { ...client.headers, 'Coder-Session-Token': client.token },
      ...(signal ? { signal } : {}),
    });
    seen(dialled.responseHeaders);
    return dialled;
  } catch (err) {
    if (!(err instanceof Error) || err.name !== 'WebSocketDialError') throw err;
    const { status, headers, body, message } = err as WebSocketDialError;
    if (status === undefined) throw new UnreachableError(`Could not reach ${client.url}: ${message}`, err);
    throw errorOf({ status, headers: seen(headers) }, body, `GET ${path}`);
  }
}

/** Opens a WebSocket route as a stream of bytes. @throws ApiError, UnreachableError */
export async function dialStream(client: Client, path: string, signal: AbortSignal): Promise<Duplex> {
  const [{ byteStream }, { connection }] = await Promise.all([
    import('@ropewalk/wire/websocket'),
    dial(client, path, signal),
  ]);
  return byteStream(connection);
}
