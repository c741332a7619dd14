import type { Duplex } from 'node:stream';
import { apiErrorText } from '@platform/client';
import { refusalOf } from '../../lib/end-of-stream.ts';

/** Opens the way to a port of the workspace's loopback. */
export type Opener = (service: 'tcp' | 'udp', port: number) => Promise<Duplex>;

/** A port of this machine that is being forwarded. */
export interface Forwarding {
  /** Where it listens. */
  readonly local: string;
  /** How many use it now. */
  connections(): number;
  close(): void;
}

/** Says why the server ended a connection that was open; one that just ends needs no words. */
export function tellEnd(port: string, err: unknown, tell: (text: string) => void): void {
  const refusal = refusalOf(err);
  if (refusal) tell(`${port}: ${apiErrorText(refusal)}`);
}
