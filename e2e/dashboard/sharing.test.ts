import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import type { WorkspaceACL, WorkspaceSharingSettings } from '@ropewalk/contract';
import {
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import type { Browser } from 'playwright-core';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let server: TestServer;
let dev: TestWorkspace;
let browser: Browser;
let owner: string;
let guest: string;
before(async () => {
  if (needsBrowser.skip) return;
  [server, browser] = await Promise.all([startTestServer(), startBrowser()]);
  ({ token: owner } = await insertPerson(server, 'olga'));
  const person = await insertPerson(server, 'uma');
  guest = person.token;
  await server.services.sql`UPDATE users SET name = 'Uma Umarova' WHERE id = ${person.id}`;
  await server.api('POST', '/organizations/default/groups', {
    body: { name: 'team', display_name: 'A team with a name that no column can show completely' },
  });
  dev = await startTestWorkspace(server, 'dev', { token: owner });
});
after(async () => {
  await browser?.close();
  await dev?.stop();
  await server?.stop();
});

async function open(t: TestContext, token: string, url: string) {
  const viewer = await openAs(browser, server, token);
  t.after(() => viewer.context.close());
  await viewer.page.goto(url);
  return viewer;
}
const acl = async () => (await server.api<WorkspaceACL>('GET', `/workspaces/${dev.workspace.id}/acl`)).body;

test('shares a workspace, shows it to the other person, and takes it back', needsBrowser, async (t) => {
  const { page, errors } = await open(t, owner, '/@olga/dev');
  const panel = page.locator('section', { has: page.getByRole('heading', { name: 'Sharing' }) });
  await panel.getByText('Nobody else can use this workspace.').waitFor();
  await panel.getByRole('button', { name: 'Share' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Uma Umarova').waitFor();
  assert.equal(await dialog.getByText('olga', { exact: true }).count(), 0, 'not the owner');
  await assertAccessible(page);
  await keepScreenshots(page, 'sharing-dialog');
  await dialog.getByRole('button', { name: 'Add Uma Umarova' }).click();
  await dialog.getByText('Shared').waitFor();
  await dialog.getByRole('button', { name: /^Add A team/ }).click();
  await dialog.getByText('Shared').nth(1).waitFor();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await panel.getByRole('combobox', { name: 'Role of Uma Umarova' }).click();
  await page.getByRole('option', { name: /Admin/ }).click();
  await panel.getByRole('combobox', { name: 'Role of Uma Umarova' }).getByText('Admin').waitFor();
  assert.deepEqual(
    (await acl()).users.map(({ username, role }) => [username, role]),
    [['uma', 'admin']],
  );
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await panel.scrollIntoViewIfNeeded();
    await keepScreenshots(page, `sharing-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  // what is scrolled below the bar at the top counts as too small
  await page.evaluate('scrollTo(0, 0)');
  await assertAccessible(page);

  const other = await open(t, guest, '/workspaces?filter=shared_with_user:me');
  await other.page.getByRole('link', { name: 'olga/dev' }).click();
  await other.page.getByRole('heading', { name: 'Sharing' }).waitFor();
  assert.equal(await other.page.getByRole('link', { name: 'Organizations' }).count(), 0, 'members administer nothing');

  await panel.getByRole('button', { name: 'Remove Uma Umarova' }).click();
  await panel.getByText('Uma Umarova').waitFor({ state: 'detached' });
  // the open page does not keep what it showed
  await other.page.getByText('Workspace not found').waitFor();
  assert.deepEqual(errors, []);
});

test('sets whose workspaces can be shared in an organization', needsBrowser, async (t) => {
  const { page, errors } = await open(t, server.adminToken, '/organizations/coder/settings');
  const choice = page.getByRole('combobox', { name: 'Who can share workspaces' });
  await choice.getByText('All members').waitFor();
  await choice.click();
  await page.getByRole('option', { name: /Nobody/ }).click();
  await keepScreenshots(page, 'sharing-setting-confirm');
  await page.getByRole('button', { name: 'Stop sharing' }).click();
  await choice.getByText('Nobody').waitFor();
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await keepScreenshots(page, `sharing-setting-${width}`);
  }
  await assertAccessible(page);
  const { body } = await server.api<WorkspaceSharingSettings>(
    'GET',
    '/organizations/default/settings/workspace-sharing',
  );
  assert.equal(body.shareable_workspace_owners, 'none');
  assert.deepEqual(await acl(), { users: [], group: [] });
  assert.deepEqual(errors, []);
});
