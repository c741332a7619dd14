import type { PatchAppStatus, WorkspaceApp, WorkspaceAppStatus, WorkspaceResource } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { addAppStatus } from '../../db/queries/agent-parts.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { time } from '../values/time.ts';

const LONGEST_MESSAGE = 160;
const LONGEST_URI = 2_048;

/**
 * Stores the status that an app of the agent's workspace reports.
 * @throws AppError `invalid`, or `not_found` if the agent has no such app
 */
export async function setAppStatus(
  ctx: Services,
  agent: ConnectedAgent<AgentIdentity>,
  input: PatchAppStatus,
): Promise<void> {
  const { app_slug: slug = '', message = '', state, uri = '' } = input;
  if (slug === '') throw new AppError('invalid', 'app_slug is required.');
  if (!state) throw new AppError('invalid', 'state is required.');
  if (message.length > LONGEST_MESSAGE) {
    const detail = `must be at most ${LONGEST_MESSAGE} characters long`;
    throw new AppError('invalid', 'The message is too long.', { validations: [{ field: 'message', detail }] });
  }
  if (uri.length > LONGEST_URI) {
    const detail = `must be at most ${LONGEST_URI} characters long`;
    throw new AppError('invalid', 'The URI is too long.', { validations: [{ field: 'uri', detail }] });
  }
  const status: Omit<WorkspaceAppStatus, 'app_id'> = {
    id: crypto.randomUUID(),
    created_at: time(ctx.clock.now()),
    workspace_id: agent.workspace_id,
    agent_id: agent.id,
    state,
    message: message.replaceAll('\0', ''),
    uri: uri.replaceAll('\0', ''),
    icon: '',
    needs_user_attention: false,
  };
  const known = await addAppStatus(ctx.sql, agent, slug, status);
  if (!known) throw new AppError('not_found', `The agent has no app ${JSON.stringify(slug)}.`);
  ctx.events.publishSoon('workspace_changed', { workspace_id: agent.workspace_id, owner_id: agent.owner_id });
}

/** The newest status among all apps of a build. */
export function latestAppStatus(resources: readonly WorkspaceResource[]): WorkspaceAppStatus | null {
  const apps = resources.flatMap(({ agents = [] }) => agents.flatMap((agent): WorkspaceApp[] => agent.apps));
  const newest = apps.flatMap(({ statuses }) => statuses?.[0] ?? []);
  return newest.reduce<WorkspaceAppStatus | null>((a, b) => (a && a.created_at >= b.created_at ? a : b), null);
}
