import type { Duplex } from 'node:stream';
import { apiErrorText } from '@ropewalk/client';
import { rejectionOf } from '../../lib/end-of-stream.ts';

/** Opens a tunnel to a port on the loopback interface of the workspace. */
export type Opener = (service: 'tcp' | 'udp', port: number) => Promise<Duplex>;

/** A port of this machine that is being forwarded. */
export interface Forwarding {
  /** The address that it listens on. */
  readonly local: string;
  /** The number of open connections. */
  connections(): number;
  close(): void;
}

/** Notes why the server ended an open connection. Other ends need no note. */
export function noteEnd(port: string, err: unknown, notify: (text: string) => void): void {
  const rejection = rejectionOf(err);
  if (rejection) notify(`${port}: ${apiErrorText(rejection)}`);
}
