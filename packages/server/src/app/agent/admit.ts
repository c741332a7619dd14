import { AppError } from '@platform/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { type AgentIdentity, countConnection, setHostKey } from '../../db/queries/agents.ts';
import { audit } from '../audit.ts';
import { type Services, systemContext } from '../context.ts';

export interface Admission {
  /** The version of the agent API that the agent uses. */
  version: string;
  /** The agent's SSH host key, as base64 of the key blob. Empty if the agent sends none. */
  hostKey: string;
  /** Whether the agent serves our tunnels. */
  reachable: boolean;
}

/**
 * Admits a connection of an agent. Returns its number: a later connection of the same agent has a higher one.
 * @throws AppError `invalid` for a version that the server does not speak, `forbidden` for another host key
 */
export async function admitAgent(
  services: Services,
  agent: ConnectedAgent<AgentIdentity>,
  { version, hostKey, reachable }: Admission,
): Promise<number> {
  checkVersion(version);
  await acceptHostKey(services, agent, hostKey);
  return countConnection(services.sql, agent, reachable);
}

function checkVersion(text: string): void {
  const parts = /^(\d+)\.(\d+)$/.exec(text);
  if (parts && Number(parts[1]) === 2 && Number(parts[2]) <= 6) return;
  const detail = `${JSON.stringify(text)} is not 2.0 to 2.6`;
  throw new AppError('invalid', 'Unknown or unsupported API version', { validations: [{ field: 'version', detail }] });
}

/**
 * Stores the first host key that an agent sends. Sessions are pinned to that key. A different key later means that
 * somebody else has the agent's token, so the server rejects the connection and writes an audit entry.
 */
async function acceptHostKey(services: Services, agent: ConnectedAgent<AgentIdentity>, hostKey: string): Promise<void> {
  // an agent that sends no key although one is stored is somebody else, too
  if (hostKey === agent.ssh_host_key) return;
  if (hostKey.length > 2_048 || !/^[A-Za-z0-9+/=]*$/.test(hostKey))
    throw new AppError('invalid', 'The SSH host key is not base64.');
  if (await setHostKey(services.sql, agent, hostKey)) return;
  await audit(systemContext(services, 'agents'), services.sql, {
    resourceType: 'workspace_agent',
    resourceId: agent.id,
    target: agent.name,
    action: 'connect',
    organizationId: agent.organization_id,
    status: 403,
    fields: { reason: 'changed SSH host key' },
  });
  throw new AppError('forbidden', 'The SSH host key of this agent has changed: the connection is refused.');
}
