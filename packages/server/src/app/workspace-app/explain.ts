import { agentById } from '../../db/queries/agents.ts';
import { agentHealth, evidenceFor } from '../agent/health.ts';
import { agentSight } from '../agent/status.ts';
import type { Services } from '../context/context.ts';

/** Why an agent cannot be reached, as a text for people. Undefined when it appears to be connected. */
export async function explainAgent(
  services: Pick<Services, 'sql' | 'clock'>,
  agentId: string,
): Promise<{ title: string; detail: string; link?: { url: string; text: string } } | undefined> {
  const agent = await agentById(services.sql, agentId);
  if (!agent) return undefined;
  const now = services.clock.now();
  const sight = agentSight(agent, now);
  if (sight.status === 'connected') return undefined;
  const evidence = await evidenceFor(services.sql, [agent], now);
  const { reason } = agentHealth(agent, sight, evidence.get(agent.id));
  const trouble = agent.troubleshooting_url;
  return {
    title: 'The agent of this workspace is not connected.',
    detail: `The ${reason}.`,
    ...(/^https?:\/\//.test(trouble) ? { link: { url: trouble, text: 'Troubleshooting' } } : {}),
  };
}
