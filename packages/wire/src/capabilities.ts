/**
 * The header of an upgrade and of its 101 response in which our own parts offer extensions to the upstream protocol.
 */
export const CAPABILITIES_HEADER = 'Platform-Capabilities';

/**
 * `tunnel/1`: streams opened to this peer begin with the tunnel preamble. `resume/1`: the peer's services accept
 * sessions that outlive their connections (see resume/). `job-control/1`: the peer speaks the JobControl service.
 * `job-errors/1`: the server's errors about jobs have codes (see job-errors.ts). `tailnet/1`: the agent joins the tailnet when
 * the server asks for it, by a tunnel to its service `tailnet`. `direct/1`: the agent's sessions may continue over the tailnet
 * (see direct-port.ts). A server offers it with a tunnel if it allows direct connections. `proxy/1`: the agent connects to workspace
 * proxies when the server asks for it (see proxy-link.ts). `proxy-path/1`: the agent's sessions may continue through a workspace
 * proxy. A server offers it with a tunnel if there is a healthy proxy.
 */
export const CAPABILITIES = [
  'tunnel/1',
  'resume/1',
  'job-control/1',
  'job-finish/1',
  'job-errors/1',
  'tailnet/1',
  'direct/1',
  'proxy/1',
  'proxy-path/1',
] as const;
export type Capability = (typeof CAPABILITIES)[number];

export function formatCapabilities(capabilities: Iterable<Capability>): string {
  return [...capabilities].join(', ');
}

/** Parses the header's value and ignores unknown capabilities. Returns an empty set without the header. */
export function parseCapabilities(header: string | string[] | undefined): Set<Capability> {
  const offered = new Set(
    String(header ?? '')
      .split(',')
      .map((part) => part.trim().toLowerCase()),
  );
  return new Set(CAPABILITIES.filter((capability) => offered.has(capability)));
}
