import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  coder,
  createWorkspace,
  eventually,
  makeTemplate,
  type ServerProcess,
  startSignedInServer,
  type Workspace,
} from './harness.ts';
import { localExample } from './local.ts';
import { agentsOf } from './pool.ts';

// Scripts of a template in the order of coder_script_order, from Terraform's plan to the agent's processes.

let server: ServerProcess;
before(async () => {
  server = await startSignedInServer();
});
after(() => server.stop());

const script = (name: string, agent: string, text: string) => `
resource "coder_script" "${name}" {
  agent_id     = ${agent}
  display_name = "${name}"
  script       = "${text}"
  run_on_start = true
}
`;

function files(): Record<string, string> {
  const { 'main.tf': main = '', ...others } = localExample();
  const agent = 'coder_agent.main.id';
  return {
    ...others,
    'main.tf': `${main.replace(/startup_script = .*/, '')}
${script('install', agent, 'echo install >> ~/order')}
${script('clone', agent, 'sleep 1; echo clone >> ~/order')}
${script('broken', agent, 'sleep 0.3; echo broken >> ~/order; exit 3')}
${script('never', agent, 'echo never >> ~/order')}
${script('anyway', agent, 'echo anyway >> ~/order')}
module "tools" {
  source   = "./tools"
  agent_id = ${agent}
}
data "coder_script_order" "start" {
  rule {
    run   = ["coder_script.install"]
    after = ["coder_script.clone", "module.tools"]
  }
  rule {
    run   = ["coder_script.never"]
    after = ["coder_script.broken"]
  }
  rule {
    run      = ["coder_script.anyway"]
    after    = ["coder_script.broken"]
    requires = "completion"
  }
}
`,
    'tools/main.tf': `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "agent_id" {}
${script('first', 'var.agent_id', 'sleep 2; echo first >> ~/order')}
${script('second', 'var.agent_id', 'echo second >> ~/order')}
data "coder_script_order" "inside" {
  rule {
    run   = ["coder_script.second"]
    after = ["coder_script.first"]
  }
}
`,
  };
}

test('runs the scripts of a template in its order, and skips those that need a failed one', {
  timeout: 240_000,
}, async () => {
  const templateId = await makeTemplate(server, 'ordered', files());
  const made = await createWorkspace(server, templateId, 'ordered');
  const agent = await eventually('all scripts have ended', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${made.id}`);
    const [found] = agentsOf(body);
    return found?.lifecycle_state === 'start_error' ? found : undefined;
  });
  const shown = await coder(['ssh', 'ordered', '--', 'cat ~/order'], { env: server.env });
  assert.equal(shown.code, 0, shown.stderr);
  const order = shown.stdout.trim().split('\n');
  assert.deepEqual(order.toSorted(), ['anyway', 'broken', 'clone', 'first', 'install', 'second']);
  for (const [before, then] of [
    ['clone', 'install'],
    ['first', 'second'],
    ['second', 'install'],
    ['broken', 'anyway'],
  ] as const)
    assert.ok(order.indexOf(before) < order.indexOf(then), `${before} before ${then}: ${order}`);
  type Scripts = { scripts: { display_name: string; status?: string }[] };
  const { scripts } = (await server.api<Scripts>('GET', `/workspaceagents/${agent.id}`)).body;
  const statusOf = (name: string) => scripts.find((one) => one.display_name === name)?.status;
  assert.deepEqual(['install', 'broken', 'never'].map(statusOf), ['ok', 'exit_failure', undefined]);
  const logs = await coder(['logs', 'ordered'], { env: server.env });
  assert.match(logs.stdout, /Skipped: the script "broken", which must succeed first, did not\./);
});
