import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PrebuildsSettings, TemplatePrebuilds } from '@ropewalk/contract';
import { eventually, makeTemplate } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

/** A template without an agent: its workspaces are ready when they are built. */
const TEMPLATE = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_workspace" "me" {}
data "coder_parameter" "size" {
  name    = "size"
  type    = "string"
  default = "small"
  mutable = true
}
data "coder_workspace_preset" "large" {
  name        = "Large machine"
  description = "16 cores, 64 GB"
  parameters  = { size = "large" }
  prebuilds {
    instances = 2
    scheduling {
      timezone = "UTC"
      schedule {
        cron      = "* * * * 0,6"
        instances = 1
      }
    }
  }
}
data "coder_workspace_preset" "broken" {
  name       = "Preset of a machine that nobody can get"
  parameters = { size = "huge" }
  prebuilds { instances = 1 }
}
resource "terraform_data" "machine" {
  lifecycle {
    precondition {
      condition     = data.coder_parameter.size.value != "huge" || data.coder_workspace.me.transition != "start"
      error_message = "No machine of this size is free."
    }
  }
}
`;

let templateId: string;
const site = useSite(async (server) => {
  templateId = await makeTemplate(server, 'payments', { 'main.tf': TEMPLATE });
});

const pools = async () =>
  (await site.server.api<TemplatePrebuilds>('GET', `/templates/${templateId}/prebuilds`)).body.pools;

test('shows the pools of a template, and pauses them', { ...needsBrowser, timeout: 120_000 }, async (t) => {
  const { page } = await site.open(t, '/templates/payments/docs');
  await page.getByRole('link', { name: 'Prebuilds' }).click();
  const table = page.getByRole('table', { name: 'Pools of prebuilt workspaces' });
  await eventually('the pools have their size', async () =>
    (await pools()).every(({ desired, ready, failed }) => ready === desired || failed > 0),
  );
  const [, large] = await pools().then((all) => all.toSorted((a, b) => b.preset_name.localeCompare(a.preset_name)));
  await table.getByText(`${large!.desired} of ${large!.desired}`).waitFor();
  await page.getByText('The last build of "Preset of a machine that nobody can get" failed').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'template-prebuilds');
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
  await keepScreenshots(page, 'template-prebuilds-narrow');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('switch', { name: 'Pause prebuilt workspaces' }).click();
  await page.getByText('Prebuilt workspaces are paused').waitFor();
  const settings = await site.server.api<PrebuildsSettings>('GET', '/prebuilds/settings');
  assert.equal(settings.body.reconciliation_paused, true);
  await page.getByRole('link', { name: 'Show the workspaces' }).click();
  await page.getByText('prebuild-').first().waitFor();
});

test('says which presets have a workspace ready, and creates it immediately', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/payments/workspace');
  const large = page.getByRole('radio', { name: /Large machine/ });
  await page.getByText('Ready within seconds').waitFor();
  assert.equal(await page.getByText('Ready within seconds').count(), 1);
  await large.check();
  await keepScreenshots(page, 'create-with-prebuilds');
  await page.getByLabel('Workspace name').fill('mine');
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.waitForURL('**/@admin/mine');
  await page.getByText('Running').first().waitFor();
});
