/** The header of an upgrade, and of its 101, by which our own parts offer what the published protocol has not. */
export const CAPABILITIES_HEADER = 'Platform-Capabilities';

/**
 * `tunnel/1`: streams opened towards this peer begin with the tunnel preamble.
 * `resume/1`: its services can be reached by sessions that outlive their carriers (see resume/).
 * `job-control/1`: it speaks the JobControl service.
 */
export const CAPABILITIES = ['tunnel/1', 'resume/1', 'job-control/1'] as const;
export type Capability = (typeof CAPABILITIES)[number];

export function formatCapabilities(capabilities: Iterable<Capability>): string {
  return [...capabilities].join(', ');
}

/** Those of a header's value (or of its absence) that we know; what we do not know is ignored. */
export function parseCapabilities(header: string | string[] | undefined): Set<Capability> {
  const offered = new Set(
    String(header ?? '')
      .split(',')
      .map((part) => part.trim().toLowerCase()),
  );
  return new Set(CAPABILITIES.filter((capability) => offered.has(capability)));
}
