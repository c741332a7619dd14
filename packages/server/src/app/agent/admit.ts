import { AppError } from '@ropewalk/kit';
import type { Capability } from '@ropewalk/wire/capabilities';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import { type Services, systemContext } from '../context/context.ts';
import { checkAgentApiVersion } from '../values/api-version.ts';
import type { AgentWrites } from './writes.ts';

export interface Admission {
  /** The version of the agent API that the agent uses. */
  version: string;
  /** What the connection says it is, from its query. Upstream's agents send "agent" since version 2.31. */
  role: string;
  /** The agent's SSH host key, as base64 of the key blob. Empty if the agent sends none. */
  hostKey: string;
  /** What the agent offers of our extensions to the protocol. */
  capabilities: readonly Capability[];
}

/** An admitted connection. */
export type Admitted =
  /** The agent's own. A later connection of the same agent has a higher number. */
  | { is: 'agent'; number: number }
  /** Another program's with the agent's token, such as the log streamer for Kubernetes. It may only write logs. */
  | { is: 'log writer' }
  /** Either of them: it is the agent's from its first call that is not about logs. Then call `admit`, which can reject. */
  | { is: 'unknown'; admit(): Promise<number> };

/**
 * Admits a connection that has an agent's token.
 * @throws AppError `invalid` for a version that the server does not speak, `forbidden` for another host key
 */
export async function admitAgent(
  services: Services,
  writes: AgentWrites,
  agent: ConnectedAgent<AgentIdentity>,
  admission: Admission,
): Promise<Admitted> {
  const { version, role, hostKey } = admission;
  checkAgentApiVersion(version);
  if (role !== '' && role !== 'agent') return { is: 'log writer' };
  const admit = () => countOrReject(services, writes, agent, admission);
  // The log streamer sends this version and no role to servers below version 2.31. So did upstream's agents of 2024.
  if (version === '2.0' && role === '' && hostKey === '') return { is: 'unknown', admit };
  return { is: 'agent', number: await admit() };
}

/**
 * Counts the connection, and stores the first host key that an agent sends. Sessions are pinned to that key. A different key
 * later, or none, means that somebody else has the agent's token, so the server rejects the connection and writes an audit
 * entry.
 */
async function countOrReject(
  services: Services,
  writes: AgentWrites,
  agent: ConnectedAgent<AgentIdentity>,
  { version, hostKey, capabilities }: Admission,
): Promise<number> {
  if (hostKey.length > 2_048 || !/^[A-Za-z0-9+/=]*$/.test(hostKey))
    throw new AppError('invalid', 'The SSH host key is not base64.');
  const reachable = capabilities.includes('tunnel/1');
  const traits = { version, capabilities, reachable, replicaId: services.replicaId };
  const number = await writes.connection({ agent, traits, hostKey });
  if (number !== undefined) return number;
  await audit(systemContext(services, 'agents'), services.sql, {
    resourceType: 'workspace_agent',
    resourceId: agent.id,
    target: agent.name,
    action: 'connect',
    organizationId: agent.organization_id,
    status: 403,
    fields: { reason: 'changed SSH host key' },
  });
  throw new AppError(
    'forbidden',
    'Rejected the connection: the SSH host key of this agent differs from its first one. Restart the workspace to get a new agent.',
  );
}
