import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import type { WorkspaceBuild } from '@ropewalk/contract';
import { ensureDirectorySync } from '@ropewalk/kit/directory';
import type { Page } from 'playwright-core';
import { buildEnds, createWorkspace, PERSON } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

// Walks the template builder of a fresh server from its set-up to a workspace that Terraform builds. The base is an
// administrator's, because the ones of the release need a cloud or start an agent.

const source = mkdtempSync(join(tmpdir(), 'bases-'));
after(() => rmSync(source, { recursive: true, force: true }));
const FILES = {
  'bases/machine/README.md': `---
display_name: Our machine
description: A machine of our own data center
icon: /icon/git.svg
---

# Our machine

Ask the platform team for a **quota** first.
`,
  'bases/machine/main.tf': `terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "zone" {
  type        = string
  description = "The zone of the machine."
}

variable "token" {
  type        = string
  description = "The token of the data center."
  sensitive   = true
}

data "coder_workspace" "me" {}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "terraform_data" "machine" {
  count            = data.coder_workspace.me.start_count
  triggers_replace = coder_agent.main.id
  input            = "\${var.zone} \${nonsensitive(length(var.token))}"
}

resource "coder_metadata" "machine" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.machine[0].id
  item {
    key   = "place"
    value = terraform_data.machine[0].input
  }
}
`,
  'modules/broken/README.md': '---\ndisplay_name: Broken\n---\n',
  'modules/broken/main.tf': 'locals {\n',
};
for (const [path, text] of Object.entries(FILES)) {
  ensureDirectorySync(dirname(join(source, path)));
  writeFileSync(join(source, path), text);
}

const site = useSite(undefined, { env: { CODER_TEMPLATE_BUILDER_SOURCE: source }, signedUp: false });

/** Checks a step in both themes and on a phone. */
async function look(page: Page, name: string): Promise<void> {
  await page.setViewportSize({ width: 1440, height: 900 });
  await assertAccessible(page);
  await keepScreenshots(page, `builder-${name}-1440`);
  await page.setViewportSize({ width: 390, height: 844 });
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
  assert.ok(Number(overflow) <= 0, `${name} scrolls sideways by ${overflow} px at 390 px`);
  await assertAccessible(page);
  await keepScreenshots(page, `builder-${name}-390`);
  await page.setViewportSize({ width: 1440, height: 900 });
}

test('from the set-up to a workspace of a composed template', { ...needsBrowser, timeout: 180_000 }, async (t) => {
  const { page, context, errors } = await site.open(t, '/', { token: undefined });
  page.setDefaultTimeout(30_000);
  await page.getByLabel('Email').fill(PERSON.email);
  await page.getByLabel('Username').fill(PERSON.username);
  await page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.waitForURL('**/templates/new/builder');

  await page.getByText(`${source}: modules/broken/main.tf:`).waitFor();
  await page.getByRole('region', { name: 'Suggestion' }).waitFor();
  await page.getByRole('link', { name: 'Docker container', exact: true }).waitFor();
  await look(page, 'base');
  await page.getByLabel('Search bases').fill('data center');
  await page.getByRole('link', { name: 'Our machine' }).click();

  await page.getByText('Ask the platform team').waitFor();
  assert.equal(await page.getByLabel('token').count(), 0, 'the import asks for sensitive values');
  assert.equal(await page.getByText('Broken').count(), 0);
  assert.equal(await page.getByText('VS Code in the browser', { exact: true }).count(), 0, 'works on Windows only');
  await page.getByRole('checkbox', { name: 'App on a port' }).check();
  await page.getByRole('checkbox', { name: 'Git identity' }).check();
  const show = page.getByRole('button', { name: 'Show the source' });
  await show.click();
  await page.getByText('Fill in the fields that are marked as required.').waitFor();
  await look(page, 'modules');
  const zone = `eu "1" \${file("/etc/passwd")} %{ if true }`;
  await page.getByLabel('zone').fill(zone);
  await page.getByRole('spinbutton', { name: 'port' }).fill('8080');
  await show.click();

  await page.getByText('main.tf').first().waitFor();
  await page.getByText('"eu \\"1\\" $${file(\\"/etc/passwd\\")} %%{ if true }"').waitFor();
  await page.getByRole('button', { name: 'modules.tf' }).click();
  await page.getByText('"./modules/port-app"').waitFor();
  await look(page, 'source');
  // the entered values are still there on the way back
  await page.goBack();
  assert.equal(await page.getByLabel('zone').inputValue(), zone);
  await show.click();
  await page.getByRole('link', { name: 'Continue' }).click();

  await page
    .getByText('With Git identity, App on a port.')
    .or(page.getByText('With App on a port, Git identity.'))
    .waitFor();
  assert.equal(await page.getByLabel('Name', { exact: false }).first().inputValue(), 'machine');
  await look(page, 'create');
  const create = page.getByRole('button', { name: 'Create template' });
  await create.click();
  // the import asks for the sensitive variable
  await page.getByLabel('token').fill('hunter2');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.waitForURL(/\/machine\/workspace$/, { timeout: 60_000 });
  // the form is gone
  await page
    .getByRole('button', { name: 'Create template' })
    .or(page.getByLabel('token'))
    .first()
    .waitFor({ state: 'detached' });
  assert.ok(!(await page.content()).includes('hunter2'));

  const cookies = await context.cookies();
  site.server.token = cookies.find(({ name }) => name.includes('session_token'))!.value;
  const { body: template } = await site.server.api<{ id: string }>('GET', '/organizations/default/templates/machine');
  const workspace = await createWorkspace(site.server, template.id, 'dev');
  const build = await buildEnds(site.server, workspace.latest_build.id);
  assert.equal(build.job.status, 'succeeded');
  const { body } = await site.server.api<WorkspaceBuild>('GET', `/workspacebuilds/${build.id}`);
  const agents = body.resources.flatMap((resource) => resource.agents ?? []);
  assert.deepEqual(
    agents.flatMap(({ apps }) => apps.map(({ slug, display_name }) => [slug, display_name])),
    [['port-8080', 'App']],
  );
  const place = body.resources.flatMap(({ metadata }) => metadata ?? []).find(({ key }) => key === 'place');
  assert.equal(place?.value, `${zone} 7`, 'the text that was entered, and not what it would be as an expression');
  assert.deepEqual(errors, []);
});
