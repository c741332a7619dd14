import type { Duplex } from 'node:stream';

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
