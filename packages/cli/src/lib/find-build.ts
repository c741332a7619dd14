import type { Client } from '@ropewalk/client';
import type { WorkspaceBuild } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { orNotFound } from './not-found.ts';
import { findWorkspace } from './workspace.ts';

/**
 * Finds a build of a workspace by number. 0 and no number mean the latest build. A negative number counts back from it:
 * -1 is the build before the latest. @throws AppError `not_found` without such a build
 */
export async function findBuild(client: Client, workspaceName: string, number = 0): Promise<WorkspaceBuild> {
  const workspace = await findWorkspace(client, workspaceName);
  if (number === 0) return workspace.latest_build;
  const latest = workspace.latest_build.build_number;
  const wanted = number < 0 ? latest + number : number;
  const missing = `Build ${number} of ${workspace.name} not found. Its latest build is ${latest}.`;
  if (wanted < 1) throw new AppError('not_found', missing);
  const params = { user: workspace.owner_name, workspacename: workspace.name, buildnumber: String(wanted) };
  return orNotFound(
    client.call('GET /users/{user}/workspace/{workspacename}/builds/{buildnumber}', { params }),
    missing,
  );
}
