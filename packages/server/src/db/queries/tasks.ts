import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import type { Allowed } from '../../authz/authorize.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { AgentIdentity, BuildRow } from '../rows.ts';
import type { CreatableWorkspace } from './workspaces.ts';

/** A message of a conversation, in the form of agentapi. */
export interface TaskMessage {
  id: number;
  role: 'agent' | 'user';
  content: string;
  time: string;
}

export interface TaskSnapshot {
  messages: TaskMessage[];
  created_at: Date;
}

export async function taskSnapshot(db: Db, workspaceId: string): Promise<TaskSnapshot | undefined> {
  const [row] = await db<TaskSnapshot[]>`
    SELECT messages, created_at FROM task_snapshots WHERE workspace_id = ${workspaceId}`;
  return row;
}

/** Replaces the conversation of the agent's workspace. */
export async function putTaskSnapshot(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  { messages, created_at: at }: TaskSnapshot,
): Promise<void> {
  await db`INSERT INTO task_snapshots (workspace_id, messages, created_at)
    VALUES (${agent.workspace_id}, ${db.json(messages as never)}, ${at})
    ON CONFLICT (workspace_id) DO UPDATE SET messages = excluded.messages, created_at = excluded.created_at`;
}

/** Stores the title of a task that is created, or that takes a prebuilt workspace. */
export async function setTaskDisplayName(
  tx: Tx,
  { ownerId, organizationId }: CreatableWorkspace,
  workspaceId: string,
  title: string,
): Promise<void> {
  await tx`UPDATE workspaces SET task_display_name = ${title}
    WHERE id = ${workspaceId} AND owner_id = ${ownerId} AND organization_id = ${organizationId}`;
}

/** The titles that people gave these tasks, by the task. */
export async function taskDisplayNames(db: Db, workspaceIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await db<{ id: string; title: string }[]>`SELECT id, task_display_name AS title FROM workspaces
    WHERE id = ANY(${[...workspaceIds]}) AND task_display_name <> ''`;
  return new Map(rows.map(({ id, title }) => [id, title]));
}

/** Changes the prompt in the latest build of a task, from where the next build takes it. */
export async function setTaskPrompt(
  tx: Tx,
  workspace: Allowed<'update', { id: string }>,
  prompt: string,
): Promise<void> {
  await tx`INSERT INTO workspace_build_parameters (workspace_build_id, name, value)
    SELECT latest_build_id, ${PROMPT_PARAMETER}, ${prompt} FROM workspaces WHERE id = ${workspace.id}
    ON CONFLICT (workspace_build_id, name) DO UPDATE SET value = excluded.value`;
}

/** Whether a build has another prompt than the build before it. */
export async function hasNewPrompt(
  db: Db,
  { workspace_id: workspaceId, build_number: number }: Pick<BuildRow, 'workspace_id' | 'build_number'>,
): Promise<boolean> {
  const prompt = (of: number) => db`(SELECT p.value FROM workspace_builds b
    JOIN workspace_build_parameters p ON p.workspace_build_id = b.id AND p.name = ${PROMPT_PARAMETER}
    WHERE b.workspace_id = ${workspaceId} AND b.build_number = ${of})`;
  const [row] = await db<{ found: boolean }[]>`
    SELECT ${prompt(number)} IS DISTINCT FROM ${prompt(number - 1)} AS found`;
  return row!.found;
}
