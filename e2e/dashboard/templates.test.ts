import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import type { Page } from 'playwright-core';
import { eventually, importVersion, makeTemplate, postVersion } from '../harness.ts';
import { keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const SCRATCH = readFileSync(join(import.meta.dirname, '../../examples/scratch/main.tf'), 'utf8');
const PARAMETER = `
data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "CPU cores"
  type         = "number"
  default      = "4"
  mutable      = true
}
`;
const README = '---\ndisplay_name: Payments\n---\n# For the payments team\n\nWith **PostgreSQL** next to it.\n';
const FILES = { 'main.tf': SCRATCH + PARAMETER, 'README.md': README, 'scripts/start.sh': '#!/bin/sh\necho one\n' };

let payments: string;
const site = useSite(async (server) => {
  payments = await makeTemplate(server, 'payments', FILES);
});

/** Opens a window of the first user, and checks at the end that the page had no errors. */
async function withPage(run: (page: Page) => Promise<void>): Promise<void> {
  const viewer = await openAs(site.browser, site.server, site.server.token);
  try {
    await run(viewer.page);
    assert.deepEqual(viewer.errors, []);
  } finally {
    await viewer.context.close();
  }
}

const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: typeof name === 'string' });
const openPanel = (page: Page, name: string | RegExp) => page.getByRole('tab', { name }).click();

async function activeVersion(templateId: string) {
  const template = await site.server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`);
  const version = await site.server.api<{ id: string; name: string; message: string; job: { file_id: string } }>(
    'GET',
    `/templateversions/${template.body.active_version_id}`,
  );
  return version.body;
}

test('a template from scratch: an error is marked at its line, fixed and published', {
  ...needsBrowser,
  timeout: 120_000,
}, async () => {
  await withPage(async (page) => {
    // the field of a search without results keeps the focus while its text is removed
    await page.goto('/templates?filter=nothing-of-this-name');
    await page.getByText('No template matches').waitFor();
    const slow = Promise.withResolvers<void>();
    await page.route('**/api/v2/templates*', async (route) => {
      await slow.promise;
      await route.continue();
    });
    const search = page.getByLabel('Search templates');
    await search.press('Control+A');
    await search.press('Delete');
    await page.waitForURL((url) => url.search === '');
    assert.equal(await page.evaluate(`document.activeElement.getAttribute('aria-label')`), 'Search templates');
    slow.resolve();
    await page
      .getByRole('link', { name: /^payments/i })
      .first()
      .waitFor();
    await page.unroute('**/api/v2/templates*');

    await button(page, 'New template').click();
    await page.getByRole('menuitem', { name: 'From scratch' }).click();
    await page.getByLabel('Name (required)').fill('my-first');
    await page.getByText('daemons match').waitFor();
    await button(page, 'Create template').click();
    await page.waitForURL(/\/my-first\/versions\/[^/]+\/edit$/);
    const code = page.getByRole('textbox', { name: 'main.tf' });
    await code.click();
    await page.keyboard.press('Control+End');
    await page.keyboard.insertText('resource "terraform_data" "more" {\n  input = var.missing\n}\n');
    await page.getByText('Not built').waitFor();
    await button(page, 'Build').click();
    await page.getByRole('tab', { name: 'Problems (1)', selected: true }).waitFor();
    const line = SCRATCH.split('\n').length + 1;
    await button(page, `main.tf:${line}`).click();
    await page.locator('.cm-lintRange-error', { hasText: 'input = var.missing' }).waitFor();
    await page.locator('.cm-activeLine', { hasText: 'input = var.missing' }).waitFor();
    assert.ok(await button(page, 'Publish').isDisabled());
    await keepScreenshots(page, 'editor-error');

    // leaving asks first
    await page.keyboard.press('Control+End');
    await page.keyboard.insertText('variable "missing" {\n  default = "found"\n}\n');
    await page.getByRole('link', { name: 'Back to the template' }).click();
    await page.getByRole('dialog', { name: 'Leave without building?' }).waitFor();
    await button(page, 'Cancel').click();

    // a file in a new folder
    await button(page, 'New file').click();
    await page.getByLabel('Path').fill('../outside.tf');
    await page.getByText('cannot be part of a path').waitFor();
    await page.getByLabel('Path').fill('docs/NOTES.md');
    await button(page, 'Create').click();
    await page.getByRole('textbox', { name: 'docs/NOTES.md' }).click();
    await page.keyboard.insertText('# Notes 👋\n');

    await page.keyboard.press('Control+s');
    await page.getByRole('tab', { name: 'Resources', selected: true }).waitFor();
    await page.getByText('machine', { exact: true }).waitFor();
    await openPanel(page, 'Variables');
    assert.equal(await page.getByLabel('missing').inputValue(), 'found');
    await keepScreenshots(page, 'editor');

    await button(page, 'Publish').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('second');
    await dialog.getByLabel('Message').fill('Finds what was missing');
    await dialog.getByRole('button', { name: 'Publish' }).click();
    await page.waitForURL(/\/versions\/second\/edit$/);
    await page.getByText('Active', { exact: true }).waitFor();
  });
  const { body: template } = await site.server.api<{ id: string }>('GET', '/organizations/default/templates/my-first');
  const version = await activeVersion(template.id);
  assert.deepEqual([version.name, version.message], ['second', 'Finds what was missing']);
});

test('a version shows what changed in it, and becomes the active one', {
  ...needsBrowser,
  timeout: 60_000,
}, async () => {
  const next = await importVersion(
    site.server,
    {
      ...FILES,
      'main.tf': SCRATCH + PARAMETER.replace('"4"', '"8"'),
      'scripts/start.sh': '#!/bin/sh\nset -eu\necho one\n',
    },
    { template_id: payments, name: 'double-cpu', message: 'Double the CPU cores' },
  );
  await withPage(async (page) => {
    await page.goto('/templates/payments/versions');
    await page.getByRole('link', { name: 'double-cpu' }).click();
    await page.getByText('2 files changed').waitFor();
    const changes = page.getByRole('group', { name: 'Changes of main.tf' });
    assert.match(await changes.innerText(), /−\s+default\s+= "4"[\s\S]*\+\s+default\s+= "8"/);
    await button(page, 'Side by side').click();
    await page.waitForURL(/view=split/);
    await page.getByRole('cell', { name: 'default = "8"' }).or(changes.getByText('= "8"')).first().waitFor();
    await keepScreenshots(page, 'version-changes');
    await button(page, 'Make active').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Make active' }).click();
    await page.getByText('double-cpu is the active version now.').waitFor();
  });
  assert.equal((await activeVersion(payments)).id, next.id);
});

test('a change by another person appears without a reload', { ...needsBrowser, timeout: 60_000 }, async () => {
  await withPage(async (page) => {
    await page.goto('/templates/payments/versions');
    await page.getByRole('link', { name: 'double-cpu' }).or(page.getByText('Create the template')).first().waitFor();
    await postVersion(site.server, FILES, { template_id: payments, name: 'from-elsewhere' });
    await page.getByRole('link', { name: 'from-elsewhere' }).waitFor();
    await page.getByRole('row', { name: /from-elsewhere.*Ready/ }).waitFor();
  });
});

test('an uploaded archive becomes a template, after its variable has a value', {
  ...needsBrowser,
  timeout: 90_000,
}, async () => {
  const source = `${SCRATCH}\nvariable "region" {\n  type = string\n  description = "Where it runs"\n}\n`;
  const buffer = await writeTar([{ path: 'main.tf', data: Buffer.from(source), mode: 0o644 }]);
  await withPage(async (page) => {
    await page.goto('/templates/new');
    await page.getByText('Drop a .tar').waitFor();
    const [choose] = await page.locator('input[type=file]').all();
    await choose!.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('no archive') });
    await page.getByText('neither a tar nor a zip archive').waitFor();
    await choose!.setInputFiles({ name: 'My Template.tar', mimeType: 'application/x-tar', buffer });
    await page.getByText('My Template.tar').waitFor();
    assert.equal(await page.getByLabel('Name (required)').inputValue(), 'my-template');
    await button(page, 'Create template').click();
    await page.getByText('The template has variables without a value').waitFor();
    await page.getByLabel('region').fill('fra');
    await button(page, 'Try again').click();
    await page.waitForURL(/\/templates\/[^/]+\/my-template\/docs$/);
    await page.getByText('This template has no README').waitFor();
    await page.goto('/templates/my-template/settings/variables');
    assert.equal(await page.getByLabel('region').inputValue(), 'fra');
  });
});

test('a starter template is found, read and used; tags that no daemon has are reported', {
  ...needsBrowser,
  timeout: 90_000,
}, async () => {
  await withPage(async (page) => {
    await page.goto('/starter-templates');
    await page.getByLabel('Search starter templates').fill('process');
    await page.getByRole('listitem').getByRole('link', { name: 'Local process' }).click();
    await page.getByRole('link', { name: 'Use this template' }).click();
    await button(page, 'Add tag').click();
    await page.getByLabel('Name of tag 1').fill('cluster');
    await page.getByLabel('Value of tag 1').fill('gpu');
    await page.getByText('No daemon matches').waitFor();
    await page.getByLabel('Name (required)').fill('from-starter');
    await button(page, 'Create template').click();
    await page.getByText('The import waits for a provisioner daemon').waitFor();
    await page.getByText('cluster=gpu').first().waitFor();
    await keepScreenshots(page, 'create-waiting');
    await button(page, 'Cancel the import').click();
    await page.getByText('The import was canceled').waitFor();
    await button(page, 'Remove tag 1').click();
    await page.getByText('daemons match').waitFor();
    await button(page, 'Try again').click();
    await page.waitForURL(/\/from-starter\/docs$/);
  });
});

test('settings are saved, errors appear at their field, and a deletion asks for the name', {
  ...needsBrowser,
  timeout: 60_000,
}, async () => {
  const id = await makeTemplate(site.server, 'short-lived', { 'main.tf': SCRATCH });
  await withPage(async (page) => {
    await page.goto('/templates/short-lived/settings');
    await page.getByLabel('Name (required)').fill('not valid');
    await page.getByLabel('Display name').fill('<b>Short</b> 🚀');
    await button(page, 'Save').first().click();
    await page.getByText('Use letters, digits and single hyphens').waitFor();
    await page.getByLabel('Name (required)').fill('renamed');
    await button(page, 'Save').first().click();
    await page.waitForURL(/\/renamed\/settings$/);
    await page.getByRole('heading', { name: '<b>Short</b> 🚀' }).waitFor();
    await page.getByRole('link', { name: 'Schedule' }).click();
    await page.getByLabel('Hours until autostop').fill('8');
    await button(page, 'Save').click();
    await eventually('the time is saved', async () => {
      const { body } = await site.server.api<{ default_ttl_ms: number }>('GET', `/templates/${id}`);
      return body.default_ttl_ms === 8 * 3_600_000;
    });
    await button(page, 'More actions').click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete template' });
    assert.ok(await confirm.isDisabled());
    await page.getByLabel('Type renamed to confirm').fill('renamed');
    await confirm.click();
    await page.waitForURL(/\/templates$/);
    await eventually(
      'the template is gone',
      async () => (await site.server.api('GET', `/templates/${id}`)).status === 404,
    );
    await page.getByRole('link', { name: 'payments' }).first().waitFor();
  });
});
