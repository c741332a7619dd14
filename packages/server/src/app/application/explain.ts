import { agentById } from '../../db/queries/agents.ts';
import { agentStatus } from '../agent/convert.ts';
import type { Services } from '../context.ts';

/** Why an agent can't be reached, in words for a person; undefined where it is connected as far as is known. */
export async function explainAgent(
  services: Pick<Services, 'sql' | 'clock'>,
  agentId: string,
): Promise<{ title: string; detail: string; link?: { url: string; text: string } } | undefined> {
  const agent = await agentById(services.sql, agentId);
  if (!agent) return undefined;
  const { status, disconnectedAt } = agentStatus(agent, services.clock.now());
  const trouble = agent.troubleshooting_url;
  const link = /^https?:\/\//.test(trouble) ? { link: { url: trouble, text: 'Troubleshooting' } } : {};
  const title = 'The agent of this workspace is not connected.';
  switch (status) {
    case 'connected':
      return undefined;
    case 'connecting':
      return { title, detail: 'It has not connected yet. Try again in a moment.', ...link };
    case 'timeout':
      return {
        title,
        detail: `It has not connected within ${agent.connection_timeout_seconds} s of its start. Look at the log of the workspace.`,
        ...link,
      };
    case 'disconnected':
      return { title, detail: `It was last seen at ${disconnectedAt!.toISOString()}.`, ...link };
  }
}
