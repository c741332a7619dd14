// What the desktop application shows: the workspaces of one person with their agents, and each change of them.
import { Workspace_Status as Status, type Workspace_Status } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import type { Ctx } from '../../app/context/context.ts';
import { workspaceObject } from '../../app/find/workspace.ts';
import { createWakeUp } from '../../app/follow/wake-up.ts';
import { workspaceStatus } from '../../app/workspace/build/convert.ts';
import { may } from '../../authz/authorize.ts';
import { type WorkspaceWithAgents, workspacesWithAgents } from '../../db/queries/workspaces.ts';

/** How often to look without an event, in ms: an event can be lost. */
const LOOK_AGAIN_MS = 30_000;

interface Shown {
  workspaces: Map<string, { id: Uint8Array; name: string; status: Workspace_Status }>;
  agents: Map<string, { id: Uint8Array; name: string; workspaceId: Uint8Array }>;
}

/**
 * The workspaces of this owner that the actor may connect to, and then the differences.
 * @param now the context with the actor's newest rights
 */
export async function* workspaceUpdates(now: () => Ctx, owner: Uint8Array, signal: AbortSignal) {
  const ownerId = uuidText(owner);
  const { wake, wait } = createWakeUp();
  signal.addEventListener('abort', wake, { once: true });
  const off = now().events.on('workspace_changed', ({ owner_id: id }) => {
    if (id === undefined || id === ownerId) wake();
  });
  let before: Shown | undefined;
  try {
    while (!signal.aborted) {
      const after = shown(await readable(now(), ownerId));
      const update = {
        upsertedWorkspaces: changed(before?.workspaces, after.workspaces),
        upsertedAgents: changed(before?.agents, after.agents),
        deletedWorkspaces: gone(before?.workspaces, after.workspaces),
        deletedAgents: gone(before?.agents, after.agents),
      };
      if (!before || Object.values(update).some(({ length }) => length > 0)) yield update;
      before = after;
      await wait(LOOK_AGAIN_MS);
    }
  } finally {
    off();
    signal.removeEventListener('abort', wake);
  }
}

async function readable(ctx: Ctx, ownerId: string): Promise<WorkspaceWithAgents[]> {
  const workspaces = await workspacesWithAgents(ctx.sql, ownerId);
  return workspaces.filter((workspace) => may(ctx.actor, 'ssh', workspaceObject(workspace)));
}

function shown(rows: readonly WorkspaceWithAgents[]): Shown {
  return {
    workspaces: new Map(
      rows.map(({ id, name, job_status: job, transition }) => [
        id,
        {
          id: uuidBytes(id),
          name,
          status: Status[workspaceStatus(job, transition).toUpperCase() as keyof typeof Status],
        },
      ]),
    ),
    agents: new Map(
      rows.flatMap(({ id: workspace, agents }) =>
        agents.map(({ id, name }) => [id, { id: uuidBytes(id), name, workspaceId: uuidBytes(workspace) }] as const),
      ),
    ),
  };
}

function changed<T extends { name: string; status?: unknown }>(
  before: Map<string, T> | undefined,
  after: Map<string, T>,
) {
  return [...after].flatMap(([id, item]) => {
    const old = before?.get(id);
    return old && old.name === item.name && old.status === item.status ? [] : [item];
  });
}

const gone = <T>(before: Map<string, T> | undefined, after: Map<string, T>): T[] =>
  [...(before ?? [])].flatMap(([id, item]) => (after.has(id) ? [] : [item]));
