import type { ClientTls } from './client.ts';

/** Helpers for the streams that `openTunnel` returns. */
export { DatagramReader, frameDatagram } from '@ropewalk/wire/datagrams';
export { splice } from '@ropewalk/wire/splice';

/** Opens a WebSocket at an address and closes it again. Rejects if a proxy in between blocks WebSockets. */
export async function tryUpgrade(
  url: string,
  options: ClientTls & { signal: AbortSignal; timeoutMs: number },
): Promise<void> {
  const { dialWebSocket } = await import('@ropewalk/wire/websocket');
  const { connection } = await dialWebSocket(url, options);
  connection.close(1000);
  await connection.closed;
}
export { widenSshWindow } from '@ropewalk/wire/ssh-window';
