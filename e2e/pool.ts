import { type Connection, eventually, makeTemplate, type ServerProcess, type Workspace } from './harness.ts';
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

/** A command that runs an agent in a folder, which it makes first. Like the local example's. */
const runAgent = (agent: string, dir: string) => `
  provisioner "local-exec" {
    command = <<-EOT
      umask 022; mkdir -p "$DIR" && cd "$DIR" && setsid env -i PATH="$PATH" HOME="$DIR" BINARY_DIR="$DIR/.agent" \\
        CODER_AGENT_SCRIPT_DATA_DIR="$DIR/.agent" CODER_AGENT_TOKEN="$TOKEN" \\
        sh -c 'echo $$ > .agent.pid; exec sh -c "$0"' "$INIT_SCRIPT" > .agent.log 2>&1 < /dev/null &
    EOT
    environment = {
      DIR         = "\${terraform_data.home.input}/${dir}"
      TOKEN       = ${agent}.token
      INIT_SCRIPT = ${agent}.init_script
    }
  }`;

/**
 * The pool's template with four more agents: one on two resources, two on one resource, and one in a module. Their start
 * scripts take a different time each.
 */
export function poolOfSeveralAgents(instances: number): Record<string, string> {
  const { 'main.tf': main = '', ...others } = localPool(instances);
  const agent = (name: string, seconds: number) => `
resource "coder_agent" "${name}" {
  os             = data.coder_provisioner.me.os
  arch           = data.coder_provisioner.me.arch
  startup_script = "sleep ${seconds}; echo started >> starts"
}
resource "coder_env" "${name}" {
  agent_id = coder_agent.${name}.id
  name     = "OWNER_BY_TEMPLATE"
  value    = data.coder_workspace_owner.me.name
}
`;
  return {
    ...others,
    'main.tf': `${main}
${agent('both', 1)}
${agent('left', 2)}
${agent('right', 0)}
resource "terraform_data" "first" {
  count            = data.coder_workspace.me.start_count
  triggers_replace = coder_agent.both.id
${runAgent('coder_agent.both', 'both')}
}
resource "terraform_data" "second" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.both.id
}
resource "terraform_data" "shared" {
  count            = data.coder_workspace.me.start_count
  triggers_replace = [coder_agent.left.id, coder_agent.right.id]
${runAgent('coder_agent.left', 'left')}
${runAgent('coder_agent.right', 'right')}
}
module "nested" {
  source = "./nested"
  home   = terraform_data.home.input
}
`,
    'nested/main.tf': `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "home" {}
data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}
${agent('nested', 1)}
resource "terraform_data" "machine" {
  count            = data.coder_workspace.me.start_count
  triggers_replace = coder_agent.nested.id
${runAgent('coder_agent.nested', 'nested').replace('terraform_data.home.input', 'var.home')}
}
`,
  };
}

export interface Pool {
  templateId: string;
  presetId: string;
}

export async function makePool(server: ServerProcess, name: string, files: Record<string, string>): Promise<Pool> {
  const templateId = await makeTemplate(server, name, files);
  const template = (await server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`)).body;
  const presets = await server.api<{ ID: string }[]>('GET', `/templateversions/${template.active_version_id}/presets`);
  return { templateId, presetId: presets.body[0]!.ID };
}

export const agentsOf = ({ latest_build }: Pick<Workspace, 'latest_build'>) =>
  latest_build.resources.flatMap(({ agents = [] }) => agents);

const agentIsReady = (workspace: Workspace): boolean =>
  agentsOf(workspace).every(({ status, lifecycle_state: state }) => status === 'connected' && state === 'ready');

/** Waits until so many workspaces of the pool are ready to be claimed. */
export async function poolIsReady(server: ServerProcess, size: number, template = ''): Promise<Workspace[]> {
  return eventually(`${size} ready prebuilt workspaces`, async () => {
    const { body } = await server.api<{ workspaces: Workspace[] }>(
      'GET',
      `/workspaces?q=owner:prebuilds+status:running${template && `+template:${template}`}`,
    );
    const ready = body.workspaces.filter(agentIsReady);
    return ready.length >= size ? ready : undefined;
  });
}

/** Waits until the agents of a workspace are ready for its owner: those of its latest build, once that has ended. */
export async function isReady(server: Connection, id: string): Promise<Workspace> {
  return eventually('the agent is ready', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${id}`);
    return body.latest_build.status === 'running' && agentIsReady(body) ? body : undefined;
  });
}
