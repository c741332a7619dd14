// What servers ask of agents about workspace proxies. An agent answers by accepting the stream, which has no bytes.
import { errorText, type Logger } from '@ropewalk/kit';
import type { ProxyAgentRequest } from '@ropewalk/wire/proxy-link';
import type { AgentReach } from '../cluster/agents.ts';

/** Resolves when the agent has done it. Rejects if it cannot be reached, or refuses. */
export async function askAgent(
  agents: AgentReach,
  agentId: string,
  request: ProxyAgentRequest,
  signal?: AbortSignal,
): Promise<void> {
  const stream = await agents.open(agentId, { ...request }, signal);
  stream.on('error', () => {}).destroy();
}

/** Asks an agent that may be gone. Never rejects. */
export function askAgentSoon(
  { agents, log }: { agents: AgentReach; log: Logger },
  agentId: string,
  request: ProxyAgentRequest,
): void {
  askAgent(agents, agentId, request).catch((err) =>
    log.debug('could not ask an agent', { agent_id: agentId, err: errorText(err) }),
  );
}
