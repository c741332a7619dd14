import {
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  type Workspace,
} from '../e2e/harness.ts';
import { localExample } from '../e2e/local.ts';

/** A first user and the workspace `dev` of the local example, its agent ready. */
export async function readyWorkspace(server: ServerProcess): Promise<void> {
  await firstUser(server);
  const template = await makeTemplate(server, 'local', localExample());
  const workspace = await createWorkspace(server, template, 'dev');
  await eventually('the agent is ready', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
    const agent = body.latest_build.resources.flatMap((resource) => resource.agents ?? [])[0];
    return agent?.status === 'connected' && agent.lifecycle_state === 'ready';
  });
}
