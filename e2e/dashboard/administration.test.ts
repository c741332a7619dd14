import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { coder, eventually, PERSON, type ServerProcess, signedInEnv, startCoderServer } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let server: ServerProcess;
let browser: Browser;
let member = '';
before(async () => {
  if (needsBrowser.skip) return;
  [server, browser] = await Promise.all([
    startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '1' } }),
    startBrowser(),
  ]);
  await server.api('POST', '/users/first', PERSON);
  server.token = await session(PERSON.email);
  const { body } = await server.api<{ organization_ids: string[] }>('GET', '/users/me');
  const made = await server.api('POST', '/users', {
    email: 'ben@example.com',
    username: 'ben',
    name: 'Ben <b>Brown</b> 🦊',
    password: PERSON.password,
    organization_ids: body.organization_ids,
  });
  assert.equal(made.status, 201);
  member = await session('ben@example.com');
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function session(email: string): Promise<string> {
  const answer = await server.api<{ session_token: string }>('POST', '/users/login', {
    email,
    password: PERSON.password,
  });
  return answer.body.session_token;
}

test('shows a provisioner key once, with the commands that use it', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, server.token);
  await page.goto('/organizations/default/provisioner-keys');
  await page.getByRole('button', { name: 'Create key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('psk');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await dialog.locator('[id$="-error"]:not(.hidden)').waitFor();
  await dialog.getByLabel('Name', { exact: true }).fill('rack-1');
  await dialog.getByRole('button', { name: 'Add tag' }).click();
  await dialog.getByLabel('Name of tag 1').fill('zone');
  await dialog.getByLabel('Value of tag 1').fill('eu');
  await assertAccessible(page);
  await dialog.getByRole('button', { name: 'Create key' }).click();
  const commands = await dialog.locator('pre').innerText();
  const key = /CODER_PROVISIONER_DAEMON_KEY=(\S+)/.exec(commands)![1]!;
  const known = await fetch(`${server.url}/api/v2/provisionerkeys/${key}`, {
    headers: { 'Coder-Provisioner-Daemon-Key': key },
  });
  assert.deepEqual(((await known.json()) as { tags: object }).tags, { zone: 'eu' });
  await keepScreenshots(page, 'provisioner-key-created');
  await assertAccessible(page);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('zone=eu').waitFor();
  await page.reload();
  await page.getByText('rack-1').waitFor();
  assert.ok(!(await page.content()).includes(key), 'the key is not shown again');

  await page.getByRole('button', { name: 'Delete the key rack-1' }).click();
  const remove = page.getByRole('button', { name: 'Delete key' });
  assert.equal(await remove.isDisabled(), true);
  await page.getByRole('dialog').getByRole('textbox').fill('rack-1');
  await remove.click();
  await page.getByText('No provisioner keys').waitFor();
  await context.close();
});

test('says why a job is pending and what its nearest daemon lacks, and cancels it', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, server.token);
  await page.goto('/organizations/default/provisioners');
  await page.getByRole('table', { name: 'Provisioners' }).getByText('Idle').waitFor();
  await page.goto('/organizations/default/provisioner-jobs');
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();

  const folder = join(server.configDir, 'regions');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'main.tf'), 'data "coder_workspace" "me" {}\n');
  const env = signedInEnv(server);
  const push = coder(['templates', 'push', 'regions', '-d', folder, '--yes', '--provisioner-tag', 'zone=eu'], { env });
  // it appears without a reload
  await page.getByText('No daemon has its tags').waitFor();
  await page.getByText('It lacks zone=eu.').waitFor();
  await page.getByText('Start a daemon with these tags').waitFor();
  await keepScreenshots(page, 'pending-job');
  await assertAccessible(page);
  await page.getByRole('combobox', { name: 'State' }).click();
  await page.getByRole('option', { name: 'Pending' }).click();
  await page.waitForURL('**/provisioner-jobs?status=pending');
  await page.getByRole('button', { name: /^Cancel Import/ }).click();
  await page.getByRole('button', { name: 'Cancel job' }).click();
  await page.getByText('No job matches').waitFor();
  assert.notEqual((await push).code, 0, 'the command that waited ends');
  await context.close();
});

test('creates a service account, which has no address', needsBrowser, async () => {
  const { page, context, errors } = await openAs(browser, server, server.token);
  await page.goto('/deployment/users/create');
  await page.getByRole('radio', { name: 'None: a service account' }).click();
  assert.equal(await page.getByLabel('Email').count(), 0);
  await page.getByLabel('Username').fill('deployer');
  await assertAccessible(page);
  await keepScreenshots(page, 'service-account');
  await page.getByRole('button', { name: 'Create user' }).click();
  await page.getByRole('heading', { name: 'deployer was created' }).waitFor();
  await page.getByText('coder tokens create --user deployer').waitFor();
  await page.getByRole('link', { name: 'Done' }).click();
  await page.getByRole('row').filter({ hasText: 'deployer' }).getByText('Service account').waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test('creates, suspends and deletes a user, with another role in between', needsBrowser, async () => {
  const { page, context, errors } = await openAs(browser, server, server.token);
  await page.goto('/deployment/users');
  // names are texts, whatever they contain
  await page.getByText('Ben <b>Brown</b> 🦊').waitFor();
  await page.getByRole('link', { name: 'Create user' }).click();
  await page.getByLabel('Email').fill('cleo@example.com');
  await page.getByLabel('Username').fill('cleo');
  await page.getByRole('button', { name: 'Generate one' }).click();
  await page.getByText('This password is good.').waitFor();
  await page.getByRole('button', { name: 'Create user' }).click();
  await page.getByRole('heading', { name: 'cleo was created' }).waitFor();
  await page.getByRole('link', { name: 'Done' }).click();

  const row = page.getByRole('row').filter({ hasText: 'cleo@example.com' });
  const choose = async (name: string) => {
    await row.getByRole('button', { name: 'Actions for cleo' }).click();
    await page.getByRole('menuitem', { name }).click();
  };
  await choose('Change roles');
  await page.getByLabel('Template Admin', { exact: true }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await row.getByText('Template Admin').waitFor();
  await choose('Suspend');
  await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
  await row.getByText('Suspended').waitFor();
  await page.getByRole('searchbox', { name: 'Find users' }).fill('status:suspended');
  await page.getByText('1 to 1 of 1').waitFor();
  await choose('Delete');
  await page.getByRole('dialog').getByRole('textbox').fill('cleo');
  await page.getByRole('button', { name: 'Delete user' }).click();
  await page.getByText('No user matches').waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test('shows a member no administration', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, member);
  // what the person may do is known
  const permissions = page.waitForResponse('**/api/v2/authcheck').then((answer) => answer.finished());
  await page.goto('/settings/account');
  await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor();
  await permissions;
  assert.equal(await page.getByRole('button', { name: 'Admin' }).count(), 0);
  for (const path of ['/deployment', '/deployment/users', '/health']) {
    await page.goto(path);
    await page.getByText('You may not see this page').waitFor();
  }
  await assertAccessible(page);
  await page.goto('/organizations/default');
  await page.getByRole('heading', { name: 'Members', level: 1 }).waitFor();
  assert.equal(await page.getByRole('link', { name: /Keys|Jobs|Settings/ }).count(), 0);
  await context.close();
});

test('opens pages from the command palette and by shortcuts', needsBrowser, async () => {
  const { page, context, errors } = await openAs(browser, server, server.token);
  await page.goto('/settings/account');
  await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByPlaceholder('Search workspaces').fill('health');
  await page.getByRole('option', { name: 'Health' }).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Enter');
  await page.waitForURL('**/health/access-url');
  await page.keyboard.press('?');
  await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor({ state: 'hidden' });
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.waitForURL('**/settings/account');
  // in a field, keys are text
  await page.getByLabel('Full name').fill('');
  await page.getByLabel('Full name').pressSequentially('g h?');
  assert.equal(await page.getByLabel('Full name').inputValue(), 'g h?');
  assert.deepEqual(errors, []);
  await context.close();
});

test('creates and deletes a token, and shows it once', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, server.token);
  await page.goto('/settings/tokens/new');
  await page.getByLabel('Name').fill('ci');
  await page.getByRole('button', { name: 'Create token' }).click();
  const token = await page.locator('main code').first().innerText();
  const me = await fetch(`${server.url}/api/v2/users/me`, { headers: { 'Coder-Session-Token': token } });
  assert.equal(me.status, 200);
  await page.getByRole('link', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Delete the token ci' }).click();
  await page.getByRole('button', { name: 'Delete token' }).click();
  await page.getByText('No tokens').waitFor();
  await eventually('the token is revoked', async () => {
    const answer = await fetch(`${server.url}/api/v2/users/me`, { headers: { 'Coder-Session-Token': token } });
    return answer.status === 401;
  });
  await context.close();
});

test('shows an announcement above every page of everybody', needsBrowser, async () => {
  const reader = await openAs(browser, server, member);
  await reader.page.goto('/settings/account');
  await reader.page.getByRole('heading', { name: 'Account', level: 1 }).waitFor();
  const { page, context } = await openAs(browser, server, server.token);
  await page.goto('/deployment/appearance');
  await page.getByRole('button', { name: 'Add banner' }).click();
  await page.getByLabel('Message of banner 1').fill('Maintenance **tonight** <img src=x onerror=alert(1)>');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The appearance was changed.').waitFor();
  // without a reload, and what people write stays text
  await reader.page.getByText('<img src=x onerror=alert(1)>').waitFor();
  assert.equal(await reader.page.locator('strong').innerText(), 'tonight');
  await assertAccessible(reader.page);
  await page.getByLabel('Logo').fill('javascript:alert(1)');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Must be a URL that starts with https://').waitFor();
  assert.deepEqual(reader.errors, []);
  await reader.context.close();
  await context.close();
});

test('remembers a density, in every tab and over a reload', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, server.token);
  const rowHeight = async (tab = page) => (await tab.getByRole('row').nth(1).boundingBox())!.height;
  const other = await context.newPage();
  await other.goto('/deployment/users');
  await other.getByRole('row').nth(1).waitFor();
  const roomy = await rowHeight(other);
  await page.goto('/settings/appearance');
  await page.getByRole('radio', { name: 'Compact' }).click();
  await assertAccessible(page);
  await eventually('the other tab is compact', async () => (await rowHeight(other)) < roomy);
  await keepScreenshots(other, 'users-compact');
  const compact = await rowHeight(other);
  await other.reload();
  await other.getByRole('row').nth(1).waitFor();
  assert.equal(await rowHeight(other), compact);
  await context.close();
});
