import type { Client } from '@ropewalk/client';
import type { WorkspaceBuild } from '@ropewalk/contract';
import { findWorkspace } from './workspace.ts';

/** Finds a build of a workspace by number. Without a number, the latest build. */
export async function findBuild(client: Client, workspaceName: string, number?: number): Promise<WorkspaceBuild> {
  const workspace = await findWorkspace(client, workspaceName);
  if (number === undefined || number === 0) return workspace.latest_build;
  return client.call('GET /users/{user}/workspace/{workspacename}/builds/{buildnumber}', {
    params: { user: workspace.owner_name, workspacename: workspace.name, buildnumber: String(number) },
  });
}
