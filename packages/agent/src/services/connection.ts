import type { TunnelRequest } from '@ropewalk/wire/tunnel';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The id that the server gave the connection of a tunnel. Older servers send none. */
export function connectionOf({ connection }: TunnelRequest): string | undefined {
  return typeof connection === 'string' && UUID.test(connection) ? connection : undefined;
}
