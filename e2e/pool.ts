import { type Build, eventually, makeTemplate, type ServerProcess, type Workspace } from './harness.ts';
import { localExample } from './local.ts';

/** The local example with one preset and a pool of its workspaces. Nothing of it is replaced when a person claims one. */
export function localPool(instances: number): Record<string, string> {
  const { 'main.tf': main = '' } = localExample();
  return {
    'main.tf': `${main
      .replace(/startup_script = .*/, 'startup_script = "echo started >> starts"')
      .replace(
        'resource "terraform_data" "home" {',
        'resource "terraform_data" "home" {\n  lifecycle { ignore_changes = [input] }',
      )}
data "coder_workspace_preset" "ready" {
  name = "Ready"
  prebuilds { instances = ${instances} }
}
resource "coder_env" "owner" {
  agent_id = coder_agent.main.id
  name     = "OWNER_BY_TEMPLATE"
  value    = data.coder_workspace_owner.me.name
}
`,
  };
}

export interface Pool {
  templateId: string;
  presetId: string;
}

export async function makePool(server: ServerProcess, name: string, instances: number): Promise<Pool> {
  const templateId = await makeTemplate(server, name, localPool(instances));
  const template = (await server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`)).body;
  const presets = await server.api<{ ID: string }[]>('GET', `/templateversions/${template.active_version_id}/presets`);
  return { templateId, presetId: presets.body[0]!.ID };
}

const agentIsReady = (build: Build): boolean =>
  build.resources
    .flatMap(({ agents = [] }) => agents)
    .every(({ status, lifecycle_state: state }) => status === 'connected' && state === 'ready');

/** Waits until so many workspaces of the pool are ready to be claimed. */
export async function poolIsReady(server: ServerProcess, size: number): Promise<Workspace[]> {
  return eventually(`${size} ready prebuilt workspaces`, async () => {
    const { body } = await server.api<{ workspaces: Workspace[] }>(
      'GET',
      '/workspaces?q=owner:prebuilds+status:running',
    );
    const ready = body.workspaces.filter(({ latest_build: build }) => agentIsReady(build));
    return ready.length >= size ? ready : undefined;
  });
}

/** Waits until the agents of a workspace are ready for its owner: those of its latest build, once that has ended. */
export async function isReady(server: ServerProcess, id: string): Promise<Workspace> {
  return eventually('the agent is ready', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${id}`);
    return body.latest_build.status === 'running' && agentIsReady(body.latest_build) ? body : undefined;
  });
}
