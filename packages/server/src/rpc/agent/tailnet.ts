import type { DrpcHandlers } from '@ropewalk/wire/drpc';
import type { Tailnet } from '@ropewalk/wire/proto/tailnet';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { TailnetAgents } from '../tailnet/agents.ts';
import type { TailnetHub } from '../tailnet/hub.ts';

/**
 * The tailnet's calls on an agent's own connection. Upstream's agents end their connection when one of the two streams
 * ends, so both stay open while the agent is welcome.
 */
export function tailnetApi(
  hub: TailnetHub,
  agents: TailnetAgents,
  agent: ConnectedAgent<AgentIdentity>,
): DrpcHandlers<typeof Tailnet> {
  return {
    streamDERPMaps: (_request, { signal }) => hub.maps(signal),
    coordinate: (requests, { signal }) => agents.coordinate(agent, requests, signal),
    refreshResumeToken: () => agents.resumeToken(agent),
    postTelemetry: () => ({}),
  };
}
