import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIKeyWithOwner, Template } from '@ropewalk/contract';
import { commandTemplate, createWorkspace, makeTemplate } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

let workspace: string;
const site = useSite(async (server) => {
  const template = await makeTemplate(server, 'service', commandTemplate('true'));
  workspace = (await createWorkspace(server, template, 'ledger')).id;
});

test('creates a token with searched scopes for one workspace, and previews what it may do', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/settings/tokens/new');
  await page.getByLabel('Name').fill('ci');
  await page.getByRole('radio', { name: 'Selected scopes' }).click();
  const create = page.getByRole('button', { name: 'Create token' });
  assert.ok(await create.isDisabled(), 'no scope is selected');
  const preview = page.getByRole('region', { name: 'Preview' });
  await preview.getByText('Do nothing yet').waitFor();

  const scopes = page.getByRole('group', { name: 'Scopes' });
  await scopes.getByLabel('Search scopes').fill('open shells');
  await scopes.getByRole('checkbox', { name: 'coder:workspaces.access' }).waitFor();
  assert.equal(await scopes.getByRole('checkbox', { name: 'template:read', exact: true }).count(), 0);
  await scopes.getByLabel('Search scopes').fill('workspace start');
  await scopes.getByLabel('Search scopes').press('Enter');
  await scopes.getByRole('checkbox', { name: 'workspace:start' }).click();
  await scopes.getByLabel('Search scopes').fill('');
  await scopes.getByRole('checkbox', { name: 'workspace:read', exact: true }).click();
  await preview.getByText('Start, Read').waitFor();

  await page.getByRole('radio', { name: 'Selected objects' }).click();
  assert.ok(await create.isDisabled(), 'no object is selected');
  await page.getByRole('group', { name: 'Workspaces and templates' }).getByRole('checkbox', { name: 'ledger' }).click();
  await preview.getByText('With 1 selected object only').waitFor();
  await assertAccessible(page);
  await page.setViewportSize({ width: 1440, height: 1500 });
  await keepScreenshots(page, 'token-form-1440');
  await page.setViewportSize({ width: 390, height: 1900 });
  const wider = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
  assert.equal(wider, false, 'nothing is wider than a phone');
  await keepScreenshots(page, 'token-form-390');
  await create.click();
  const token = await page
    .getByRole('button', { name: 'Copy the token' })
    .locator('xpath=../..')
    .locator('code')
    .innerText();

  const { body } = await site.server.api<APIKeyWithOwner[]>('GET', '/users/me/keys/tokens');
  assert.deepEqual(
    body.map(({ token_name, scopes: names, allow_list }) => [token_name, names, allow_list]),
    [['ci', ['workspace:start', 'workspace:read'], [`workspace:${workspace}`]]],
  );
  const headers = { 'Coder-Session-Token': token.trim() };
  const read = await fetch(`${site.server.url}/api/v2/workspaces/${workspace}`, { headers });
  assert.equal(read.status, 200);
  const templates = await fetch(`${site.server.url}/api/v2/templates`, { headers });
  assert.deepEqual((await templates.json()) as Template[], []);

  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto('/settings/tokens');
  await page.getByText('2 scopes, 1 object').waitFor();
  await keepScreenshots(page, 'tokens-1440');
  await page.setViewportSize({ width: 390, height: 900 });
  await keepScreenshots(page, 'tokens-390');
  assert.deepEqual(errors, []);
});
