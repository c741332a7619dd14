import type { OfferedTunnel } from '@ropewalk/wire/tunnel';

/**
 * Serves one stream that the server has opened to this agent: checks `tunnel.request`, then accepts or rejects. The
 * server has decided who may use the service, but the service still validates the request. An error thrown before
 * accepting rejects the tunnel with its text.
 */
export type Service = (tunnel: OfferedTunnel) => void | Promise<void>;
export type Services = ReadonlyMap<string, Service>;
