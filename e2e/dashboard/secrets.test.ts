import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditLogResponse, UserSecret } from '@ropewalk/contract';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const site = useSite();

const stored = async () => {
  const { body } = await site.server.api<UserSecret[]>('GET', '/users/me/secrets');
  return body.map((one) => [one.name, one.env_name, one.file_path, one.enabled, one.description]);
};

test('adds, edits, disables and deletes secrets, and never shows a value', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/settings/secrets');
  await page.getByText('No secrets').waitFor();
  await keepScreenshots(page, 'secrets-empty');
  await page.getByRole('button', { name: 'Add secret' }).click();
  const dialog = page.getByRole('dialog');
  const submit = dialog.getByRole('button', { name: 'Add secret' });
  await dialog.getByLabel('Name').fill('github');
  await dialog.getByLabel('Value').fill('hunter2');
  assert.ok(await submit.isDisabled(), 'no variable and no file');
  await dialog.getByLabel('Environment variable').fill('PATH');
  await submit.click();
  await dialog.getByText('The variable PATH is reserved').waitFor();
  await assertAccessible(page);
  await page.setViewportSize({ width: 1440, height: 900 });
  await keepScreenshots(page, 'secret-dialog-1440');
  await page.setViewportSize({ width: 390, height: 844 });
  await keepScreenshots(page, 'secret-dialog-390');
  await dialog.getByLabel('Environment variable').fill('GITHUB_TOKEN');
  await dialog.getByLabel('Description').fill('Clones private repositories');
  await submit.click();
  await dialog.waitFor({ state: 'hidden' });
  assert.deepEqual(await stored(), [['github', 'GITHUB_TOKEN', '', true, 'Clones private repositories']]);

  await page.setViewportSize({ width: 1440, height: 900 });
  const row = page.getByRole('row', { name: /github/ });
  await row.getByRole('button', { name: 'Actions for github' }).click();
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  assert.equal(await dialog.getByLabel('New value').inputValue(), '');
  await dialog.getByLabel('File').fill('~/.config/github/token');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('~/.config/github/token').waitFor();
  const { body: log } = await site.server.api<AuditLogResponse>('GET', '/audit?q=resource_type:user_secret&limit=1');
  assert.deepEqual(Object.keys(log.audit_logs[0]!.diff), ['file_path'], 'the value stays');

  await row.getByRole('switch', { name: 'Give github to workspaces' }).click();
  await page.locator('[role=switch][data-state=unchecked]').waitFor();
  assert.equal((await stored())[0]![3], false);
  for (const [name, env_name, file_path] of [
    ['kubeconfig', '', '~/.kube/config'],
    ['a-very-long-name-of-a-secret-that-no-column-can-show-completely', 'REGISTRY_PASSWORD_OF_PRODUCTION', '/etc/x'],
  ]) {
    const body = { name, env_name, file_path, value: 'hunter2', description: '' };
    assert.equal((await site.server.api('POST', '/users/me/secrets', body)).status, 201);
  }
  const spare = { name: 'spare', value: 'hunter2', enabled: false };
  assert.equal((await site.server.api('POST', '/users/me/secrets', spare)).status, 201);
  await page.reload();
  await page.getByText('kubeconfig').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'secrets-1440');
  await page.setViewportSize({ width: 390, height: 844 });
  const wider = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
  assert.equal(wider, false, 'nothing is wider than a phone');
  await keepScreenshots(page, 'secrets-390');
  assert.ok(!(await page.content()).includes('hunter2'));

  await row.getByRole('button', { name: 'Actions for github' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await dialog.getByRole('button', { name: 'Delete secret' }).click();
  await dialog.waitFor({ state: 'hidden' });
  assert.ok((await stored()).every(([name]) => name !== 'github'));
  assert.deepEqual(errors, []);
});
