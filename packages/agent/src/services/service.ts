import type { AcceptedTunnel } from '@platform/wire/tunnel';

/**
 * Serves one stream that the server has opened towards this agent: looks at `tunnel.request`, then accepts or refuses.
 * Who may use the service was decided by the server; what the request holds is nevertheless checked. What is thrown
 * before either answer refuses the tunnel with its text.
 */
export type Service = (tunnel: AcceptedTunnel) => void | Promise<void>;
export type Services = ReadonlyMap<string, Service>;
