import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildEnds, commandTemplate, makeTemplate, type Workspace } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const PARAMETERS = `
data "coder_workspace_owner" "me" {}

data "coder_parameter" "project" {
  name         = "project"
  display_name = "Project"
  default      = "website"
  mutable      = true
  order        = 1
  option {
    name  = "Website"
    value = "website"
  }
  option {
    name        = "Machine learning"
    value       = "learning"
    description = "Trains models for \${data.coder_workspace_owner.me.name}"
  }
}

module "machine" {
  source  = "./machine"
  project = data.coder_parameter.project.value
}

data "coder_parameter" "code" {
  name         = "code"
  display_name = "Access code"
  default      = "open"
  mutable      = true
  order        = 9
  styling      = jsonencode({ mask_input = true, placeholder = "Ask your lead" })
  validation {
    regex = "^[a-z]*$"
    error = "Use lower case letters."
  }
}

data "coder_workspace_preset" "trainer" {
  name       = "Trainer"
  parameters = { project = "learning", memory = "64" }
}
`;

const MACHINE = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "project" { type = string }
locals {
  sizes = var.project == "learning" ? [32, 64] : [4, 8]
}
data "coder_parameter" "memory" {
  name         = "memory"
  display_name = "Memory"
  type         = "number"
  mutable      = true
  default      = local.sizes[0]
  order        = 2
  dynamic "option" {
    for_each = local.sizes
    content {
      name  = "\${option.value} GB"
      value = option.value
    }
  }
}
data "coder_parameter" "gpus" {
  count        = var.project == "learning" ? 1 : 0
  name         = "gpus"
  display_name = "GPUs"
  type         = "number"
  form_type    = "slider"
  mutable      = true
  default      = 1
  order        = 3
  validation {
    min   = 0
    max   = 4
    error = "Choose {min} to {max} GPUs, not {value}."
  }
}
`;

const site = useSite(async (server) => {
  const files = { ...commandTemplate('true'), 'parameters.tf': PARAMETERS, 'machine/main.tf': MACHINE };
  const id = await makeTemplate(server, 'live', files);
  await server.api('PATCH', `/templates/${id}`, { use_classic_parameter_flow: false });
});

async function valuesOf(name: string): Promise<Record<string, string>> {
  const { body } = await site.server.api<Workspace>('GET', `/users/me/workspace/${name}`);
  const build = await buildEnds(site.server, body.latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const { body: all } = await site.server.api<{ name: string; value: string }[]>(
    'GET',
    `/workspacebuilds/${build.id}/parameters`,
  );
  return Object.fromEntries(all.map((one) => [one.name, one.value]));
}

test('the form follows the values typed so far, and the build has them', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/templates/live/workspace');
  await page.getByLabel('Workspace name').fill('first');
  await page.getByRole('radio', { name: '8 GB' }).waitFor();
  assert.equal(await page.getByText('GPUs').count(), 0);
  await page.getByRole('radio', { name: 'Machine learning' }).click();
  await page.getByText('Trains models for admin').waitFor();
  await page.getByRole('radio', { name: '64 GB' }).waitFor();
  assert.equal(await page.getByRole('radio', { name: '8 GB' }).count(), 0);
  assert.equal(await page.getByRole('radio', { name: '32 GB' }).isChecked(), true, 'the default follows');
  const gpus = page.getByRole('textbox', { name: 'GPUs, as a number' });
  await gpus.fill('9');
  await page.getByText('Choose 0 to 4 GPUs, not 9.').waitFor();
  const code = page.getByLabel('Access code');
  assert.equal(await code.getAttribute('type'), 'password');
  await code.fill('ABC');
  await page.getByText('Use lower case letters.').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'live-parameters');
  await page.getByRole('button', { name: 'Create workspace' }).click();
  assert.equal(new URL(page.url()).pathname, '/templates/live/workspace', 'an invalid form stays');
  await gpus.fill('2');
  await code.fill('abc');
  await page.getByText('Choose 0 to 4 GPUs, not 9.').waitFor({ state: 'detached' });
  await page.getByText('Use lower case letters.').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.waitForURL('**/@admin/first');
  assert.deepEqual(await valuesOf('first'), { project: 'learning', memory: '32', gpus: '2', code: 'abc' });
  assert.deepEqual(errors, []);
});

test('a preset sets values whose parameters exist only with it', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/live/workspace?name=second');
  await page.getByRole('radio', { name: 'Trainer' }).click();
  assert.equal(await page.getByRole('radio', { name: '64 GB' }).isChecked(), true);
  assert.equal(await page.getByRole('radio', { name: '32 GB' }).isDisabled(), true);
  await page.getByRole('textbox', { name: 'GPUs, as a number' }).waitFor();
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.waitForURL('**/@admin/second');
  // people get their last value of a parameter again
  assert.deepEqual(await valuesOf('second'), { project: 'learning', memory: '64', gpus: '1', code: 'abc' });
});

test(
  'creates a workspace once the values are evaluated, however early the button is pressed',
  needsBrowser,
  async (t) => {
    const { page } = await site.open(t, '/templates');
    const answers: (() => void)[] = [];
    let held = true;
    await page.routeWebSocket(/dynamic-parameters/, (socket) => {
      const upstream = socket.connectToServer();
      socket.onMessage((message) => upstream.send(message));
      upstream.onMessage((message) => {
        const send = () => socket.send(message);
        if (held) answers.push(send);
        else send();
      });
    });
    await page.goto('/templates/live/workspace?name=early');
    const create = page.getByRole('button', { name: 'Create workspace' });
    await create.click();
    assert.equal(await create.getAttribute('aria-busy'), 'true', 'it waits');
    held = false;
    for (const send of answers.splice(0)) send();
    await page.waitForURL('**/@admin/early');
  },
);

test('the settings of a workspace follow its values', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/@admin/second/settings/parameters');
  await page.getByRole('radio', { name: 'Website' }).click();
  await page.getByText('GPUs').waitFor({ state: 'detached' });
  // a value that is not an option any longer must be chosen again
  await page.getByText(/must be one of "4", "8"/).waitFor();
  await page.getByRole('radio', { name: '8 GB' }).click();
  await page.getByRole('button', { name: /^(Apply|Save)/ }).click();
  await page.waitForURL('**/@admin/second');
  assert.deepEqual(await valuesOf('second'), { project: 'website', memory: '8', code: 'abc' });
});
