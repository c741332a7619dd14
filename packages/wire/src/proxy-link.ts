import type { Duplex } from 'node:stream';

// What a workspace proxy asks a server for, over the session of its link: a WebSocket at PROXY_LINK_PATH with the proxy's
// token, and `linkSession` over it. Each request opens a stream as a tunnel does (tunnel.ts). Rejections are errors as text
// (packages/kit/src/error-text.ts). A `grant` is the token of a grant that a server signed for this proxy.

/** Upstream's name of the header with the token of a proxy, in lower case. */
export const PROXY_TOKEN_HEADER = 'coder-external-proxy-token';
/** The header in which a process of a proxy sends the id with which it registers, in lower case. */
export const PROXY_PROCESS_HEADER = 'coder-proxy-process';
/** Upstream's name of the header in which a proxy sends the address of a visitor, in lower case. */
export const VISITOR_HEADER = 'coder-workspace-proxy-real-ip';
/** The route of a server where workspace proxies connect. */
export const PROXY_LINK_PATH = '/api/v2/workspaceproxies/me/link';

export type ProxyLinkRequest =
  /** The app's bytes. */
  | { service: 'app'; grant: string }
  /** The bytes of a terminal of the agent. `query`: that of the visitor's request. `ip`, `userAgent`: for the connection log. */
  | { service: 'terminal'; grant: string; query: Record<string, string>; ip: string; userAgent: string }
  /** News of the grant of an app, until the proxy ends the stream because it does not use the grant any more. */
  | { service: 'watch'; grant: string }
  /** The token of a new grant for the same visitor and the same app or terminal, and the end of the stream. */
  | { service: 'renew'; grant: string }
  /** The agent of the grant connects to the proxy (see below). The stream ends when it has, or is rejected. */
  | { service: 'invite'; grant: string }
  /** The same as `watch` for a terminal whose bytes the agent's own connection carries. The first line is a permit. */
  | { service: 'permit'; grant: string; query: Record<string, string>; ip: string; userAgent: string }
  /** Which nodes may exchange packets over the relay of the proxy: RelayReport and RelayNews as framed JSON, until one side ends. */
  | { service: 'relay' };

// Keys of nodes are 64 hexadecimal digits. The proxy reports each key that signs in to its relay. Only about these keys does the
// server send something: first the pairs of the key with others that the proxy has reported, then what it knows of the key. Both
// come again when they change.

/** A client with this key has signed in to the relay of the proxy, or its last connection has ended. */
export interface RelayReport {
  key: string;
  isPresent: boolean;
}

export type RelayNews =
  /** `isIntroduced`: a node with this key is connected, or was recently. `isOwned`: also one that has lost its rights. */
  | { key: string; isIntroduced: boolean; isOwned: boolean }
  /** Whether the nodes with these keys may exchange packets. False at first. */
  | { pair: [key: string, other: string]; isPermitted: boolean }
  /** Every second. */
  | { isAlive: true };

/** The longest RelayReport or RelayNews, in bytes. */
export const MAX_RELAY_MESSAGE = 1_024;

/**
 * What a server sends about a grant, each as a line of text. `changed`: rights behind it have changed, and the proxy asks again
 * before the next request. `ended`: the visitor may not use the app any more, and everything that is open ends. It is the last
 * line. `permit <token>`: for streams over the agent's own connection. Each replaces the one before.
 */
export type GrantNews = 'changed' | 'ended' | `permit ${string}`;

/** The token in a line of news. Undefined for other news. */
export const permitIn = (line: string): string | undefined => /^permit (.+)$/.exec(line)?.[1];

/** Calls back with each line of a stream. A server that sends longer ones is not one of ours. */
export function readLines(stream: Duplex, onLine: (line: string) => void): void {
  let rest = '';
  stream.on('data', (bytes: Buffer) => {
    const lines = (rest + bytes.toString('latin1')).split('\n');
    rest = lines.pop()!;
    if (rest.length > MAX_LINE) stream.destroy(new Error('a line is too long'));
    for (const line of lines) onLine(line);
  });
}

const MAX_LINE = 16 * 1024;

// An agent connects to a proxy when a server invites it, so that the bytes of visitors don't cross the server: a WebSocket at
// PROXY_AGENT_PATH with the ticket of the invitation, and `linkSession` over it. The proxy opens streams as tunnels with the
// services of PermittedRequest. The agent verifies every permit with the keys of the invitation, so the proxy decides nothing.

/** The route of a proxy where agents connect. */
export const PROXY_AGENT_PATH = '/api/v2/workspaceagents/me/proxy';
export const TICKET_HEADER = 'coder-agent-proxy-ticket';

/** What a server asks an agent for, as the request of a tunnel to its service `proxy`. */
export type ProxyAgentRequest =
  | {
      service: 'proxy';
      does: 'connect';
      proxy: string;
      /** The access URL of the proxy. */
      url: string;
      /** The id of this agent, as permits name it. */
      agent: string;
      ticket: string;
      /** The keys that sign permits now, and the next one. `secret`: 32 bytes in hexadecimal digits. */
      keys: { sequence: number; secret: string }[];
    }
  /** Ends what is open under a permit. */
  | { service: 'proxy'; does: 'end'; proxy: string; permit: string }
  /** Ends the connection: the proxy has lost its token. */
  | { service: 'proxy'; does: 'leave'; proxy: string };

/** The claims of a ticket. `ticket`: the id of the agent. `exp`: in seconds since 1970. */
export interface TicketClaims {
  aud: string;
  ticket: string;
  exp: number;
}

/**
 * The requests of a proxy to an agent. `permitted`: the bytes of the service in the permit. `renewed`: a newer permit for open streams.
 * Streams end when the newest permit of theirs expires.
 */
export interface PermittedRequest {
  service: 'permitted' | 'renewed';
  permit: string;
}

// Sessions of tunnels continue through a proxy over the agent's connection to it. A client asks the server for a permit whose
// service is `tunnel`: a WebSocket at `/workspaceagents/{id}/proxy-path` brings PathNews, and lasts as long as the client uses
// the path. With a permit in the header PERMIT_HEADER the client opens WebSockets at CLIENT_PATH of the proxy, which opens a
// stream to the agent for each. What the two then carry is a tunnel (tunnel.ts) of the client to the agent.

/** The route of a proxy where clients open tunnels. */
export const CLIENT_PATH = '/api/v2/workspaceagents/me/proxied-tunnel';
export const PERMIT_HEADER = 'coder-tunnel-permit';

/** What a server sends to a client, as JSON: a permit now, and a newer one before it expires. */
export interface PathNews {
  /** The access URL of the proxy. */
  url: string;
  permit: string;
}

/**
 * The request of a permit for clients. `holder`: the person and the API key, which must be those of the session. Its bytes are
 * another tunnel of the client, with a ClientTunnelRequest.
 */
export interface PermittedTunnel {
  service: 'tunnel';
  holder: { user: string; key: string };
}

/** `session`: continues a session (see resume/). `ping`: echoes. */
export interface ClientTunnelRequest {
  service: 'session' | 'ping';
}

/** The claims of a permit. `aud`: the proxy. `exp`: in seconds since 1970. `id`: the same in all permits of a stream of news. */
export interface PermitClaims {
  aud: string;
  exp: number;
  permit?: { id: string; agent: string; request: { service: string; [field: string]: unknown } };
}
