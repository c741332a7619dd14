import type { Duplex } from 'node:stream';

/** How long the peer may take to read the last frames before the connection is dropped, in ms. */
const FLUSH_MS = 5_000;

/**
 * Ends a connection that is no longer needed, but only after the peer has ended it too: the last frames must reach the
 * peer.
 */
export function endConnection(connection: Duplex): void {
  connection.resume();
  connection.end();
  const timer = setTimeout(() => connection.destroy(), FLUSH_MS).unref();
  connection.once('end', () => connection.destroy());
  connection.once('close', () => clearTimeout(timer));
}
