import type { Duplex } from 'node:stream';
import type { WebSocketDialError } from '@platform/wire/websocket';
import type { Client } from './client.ts';
import { errorOf, UnreachableError } from './errors.ts';

async function dial(client: Client, path: string, signal?: AbortSignal) {
  const { dialWebSocket } = await import('@platform/wire/websocket');
  try {
    return await dialWebSocket(`${client.url}/api/v2${path}`, {
      headers: { ...client.headers, 'Coder-Session-Token': client.token },
      ...(signal ? { signal } : {}),
    });
  } catch (err) {
    if (!(err instanceof Error) || err.name !== 'WebSocketDialError') throw err;
    const { status, headers, body, message } = err as WebSocketDialError;
    if (status === undefined) throw new UnreachableError(`Could not reach ${client.url}: ${message}`, err);
    const get = (name: string) => String(headers[name] ?? '') || null;
    throw errorOf({ status, headers: { get } }, body, `GET ${path}`);
  }
}

/**
 * Calls back with each JSON message of a WebSocket route, in order, until the server closes it. Some routes send a
 * list per message, others one object; see ProvisionerJobLog and WorkspaceAgentLog.
 * @throws ApiError when the server refuses, UnreachableError when the connection breaks before its close.
 */
export async function followJson(
  client: Client,
  path: string,
  onMessage: (message: unknown) => void,
  signal?: AbortSignal,
): Promise<void> {
  const { connection } = await dial(client, path, signal);
  const stop = () => connection.close(1000);
  signal?.addEventListener('abort', stop, { once: true });
  connection.on('text', (text) => onMessage(JSON.parse(text)));
  const { code, reason } = await connection.closed;
  signal?.removeEventListener('abort', stop);
  signal?.throwIfAborted();
  if (code !== 1000 && code !== 1001 && code !== 1005) {
    throw new UnreachableError(`The connection to ${client.url} was lost (${code}${reason ? ` ${reason}` : ''}).`);
  }
}

export interface Tunnel {
  /** The service's bytes. */
  stream: Duplex;
  /** What the server knows of the agent's SSH host key, as base64 of the key blob; empty where it knows none. */
  hostKey: string;
}

/** Opens a byte stream to a service, such as `ssh`, of a connected agent. */
export async function openTunnel(
  client: Client,
  agentId: string,
  options: { service: string; signal?: AbortSignal },
): Promise<Tunnel> {
  const { byteStream } = await import('@platform/wire/websocket');
  const query = new URLSearchParams({ service: options.service });
  const path = `/workspaceagents/${encodeURIComponent(agentId)}/tunnel?${query}`;
  const { connection, responseHeaders } = await dial(client, path, options.signal);
  return { stream: byteStream(connection), hostKey: String(responseHeaders['platform-ssh-host-key'] ?? '') };
}
