import type { Duplex } from 'node:stream';

/** For the peer to read the last frames before the carrier is dropped. */
const FLUSH_MS = 5_000;

/** Ends a carrier whose work is done, but not before the peer has ended it too: what was sent last must reach it. */
export function endCarrier(carrier: Duplex): void {
  carrier.resume();
  carrier.end();
  const timer = setTimeout(() => carrier.destroy(), FLUSH_MS).unref();
  carrier.once('end', () => carrier.destroy());
  carrier.once('close', () => clearTimeout(timer));
}
