import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import type { Locator, Page } from 'playwright-core';
import { type DaemonProcess, makeKey, startDaemon } from '../daemon-process.ts';
import { importEnds, makeTemplate, postVersion } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const TEMPLATE = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "image" {
  default = "small"
}
data "coder_parameter" "disk" {
  name    = "disk"
  default = "ssd"
}
data "coder_workspace_tags" "where" {
  tags = {
    zone = "a"
  }
}
resource "terraform_data" "machine" {
  input = var.image
  lifecycle {
    precondition {
      condition     = data.coder_parameter.disk.value != "tape"
      error_message = "No machine has a tape drive."
    }
  }
}
`;
const ADD = 'Add these tags and import again';

let template: string;
let daemon: DaemonProcess | undefined;
const site = useSite(
  async (server) => {
    const key = await makeKey(server, 'zone-a', { zone: 'a' });
    daemon = await startDaemon(server, { name: 'in-a', env: { CODER_PROVISIONER_DAEMON_KEY: key } });
    template = await makeTemplate(server, 'zones', { 'main.tf': TEMPLATE }, { tags: { zone: 'a' } });
  },
  { env: { CODER_PROVISIONER_DAEMONS: '0' } },
);
after(() => daemon?.kill());

/** Opens a line of an excerpt in the log, with the keyboard. */
async function openLine(page: Page, excerpt: Locator, text: string, label: string): Promise<void> {
  await excerpt.getByRole('button', { name: text }).focus();
  await page.keyboard.press('Enter');
  const line = page.getByRole('log', { name: label }).locator('[aria-current]');
  await line.filter({ hasText: text }).filter({ visible: true }).waitFor();
}

test('imports a waiting version again with the tags that its template names, with one key', {
  ...needsBrowser,
  timeout: 120_000,
}, async (t) => {
  const { server } = site;
  const given = { name: 'v2', message: 'Larger machines', user_variable_values: [{ name: 'image', value: 'large' }] };
  const waiting = await postVersion(server, { 'main.tf': TEMPLATE }, { ...given, template_id: template });
  const { page, errors } = await site.open(t, '/templates/zones/versions/v2');
  const add = page.getByRole('button', { name: ADD });
  await add.waitFor();
  await page.getByText('zone=a', { exact: true }).waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'import-waits-for-tags');
  await add.focus();
  await page.keyboard.press('Enter');
  await page.getByText('Ready', { exact: true }).waitFor();
  assert.equal(new URL(page.url()).pathname, '/templates/coder/zones/versions/v2');

  const { body: version } = await server.api<TemplateVersion>('GET', `/templates/${template}/versions/v2`);
  assert.notEqual(version.id, waiting.id);
  assert.deepEqual(
    [version.message, version.job.tags['zone'], version.job.worker_name],
    ['Larger machines', 'a', 'in-a'],
  );
  const { body: variables } = await server.api<TemplateVersionVariable[]>(
    'GET',
    `/templateversions/${version.id}/variables`,
  );
  assert.equal(variables.find(({ name }) => name === 'image')?.value, 'large');
  const { body: old } = await server.api<TemplateVersion>('GET', `/templateversions/${waiting.id}`);
  assert.deepEqual([old.archived, old.job.status], [true, 'canceled']);

  // a template that does not exist yet
  await page.goto('/templates/new');
  const archive = await writeTar([{ path: 'main.tf', data: Buffer.from(TEMPLATE), mode: 0o644 }]);
  await page
    .locator('input[type=file]')
    .first()
    .setInputFiles({
      name: 'other.tar',
      mimeType: 'application/x-tar',
      buffer: Buffer.from(archive),
    });
  await page.getByRole('button', { name: 'Create template' }).click();
  await add.click();
  await page.waitForURL('**/templates/coder/other');
  assert.deepEqual(errors, []);
});

test('shows the error of a failed import and of a dry run, with links to their logs', {
  ...needsBrowser,
  timeout: 120_000,
}, async (t) => {
  const { server } = site;
  const broken = TEMPLATE.replace('var.image', 'var.missing');
  const tags = { zone: 'a' };
  const failed = await postVersion(server, { 'main.tf': broken }, { name: 'broken', template_id: template, tags });
  await importEnds(server, failed.id);
  const { page, errors } = await site.open(t, '/templates/zones/versions/broken');
  const heading = 'Reference to undeclared input variable';
  const excerpt = page.getByRole('list', { name: heading });
  await excerpt.getByText('An input variable with the name "missing"').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'import-failed');
  await openLine(page, excerpt, `Error: ${heading}`, 'Import log');
  await page.getByRole('button', { name: /^main\.tf:\d+$/ }).click();
  await page.getByRole('tab', { name: 'Source', selected: true }).waitFor();

  const { body: of } = await server.api<{ active_version_id: string }>('GET', `/templates/${template}`);
  const dry = await server.api('POST', `/templateversions/${of.active_version_id}/dry-run`, {
    workspace_name: 'dry',
    rich_parameter_values: [{ name: 'disk', value: 'tape' }],
  });
  assert.equal(dry.status, 201, JSON.stringify(dry.body));
  await page.goto('/organizations/coder/provisioner-jobs?status=failed');
  await page.getByRole('button', { name: 'Show the log: Dry run of zones' }).click();
  const last = page.getByRole('list', { name: 'The last error of the log' });
  await openLine(page, last, 'No machine has a tape drive.', 'Log of the job');
  await assertAccessible(page);
  await keepScreenshots(page, 'dry-run-failed');
  assert.deepEqual(errors, []);
});
