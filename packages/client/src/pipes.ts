/** Helpers for the streams that `openTunnel` returns. */
export { DatagramReader, frameDatagram } from '@platform/wire/datagrams';
export { splice } from '@platform/wire/splice';

/** Opens a WebSocket at an address and closes it again. Rejects if a proxy in between blocks WebSockets. */
export async function tryUpgrade(url: string, signal: AbortSignal, timeoutMs: number): Promise<void> {
  const { dialWebSocket } = await import('@platform/wire/websocket');
  const { connection } = await dialWebSocket(url, { signal, timeoutMs });
  connection.close(1000);
  await connection.closed;
}
export { widenSshWindow } from '@platform/wire/ssh-window';
