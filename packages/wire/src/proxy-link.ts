// What a workspace proxy asks a server for, over the session of its link: a WebSocket at PROXY_LINK_PATH with the proxy's
// token, and `linkSession` over it. Each request opens a stream as a tunnel does (tunnel.ts). Rejections are errors as text
// (packages/kit/src/error-text.ts). A `grant` is the token of a grant that a server signed for this proxy.

/** The route of a server where workspace proxies connect. */
export const PROXY_LINK_PATH = '/api/v2/workspaceproxies/me/link';

export type ProxyLinkRequest =
  /** The app's bytes. */
  | { service: 'app'; grant: string }
  /** The bytes of a terminal of the agent. `query`: that of the visitor's request. `ip`, `userAgent`: for the connection log. */
  | { service: 'terminal'; grant: string; query: Record<string, string>; ip: string; userAgent: string }
  /** Bytes of GRANT_NEWS, until the proxy ends the stream because it does not use the grant any more. */
  | { service: 'watch'; grant: string }
  /** The token of a new grant for the same visitor and the same app or terminal, and the end of the stream. */
  | { service: 'renew'; grant: string };

/**
 * What a server sends about a grant. `changed`: rights behind it have changed, and the proxy asks again before the next request.
 * `ended`: the visitor may not use the app any more, and everything that is open ends. It is the last byte.
 */
export const GRANT_NEWS = { changed: 1, ended: 2 } as const;
