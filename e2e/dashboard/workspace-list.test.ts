import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { buildEnds, commandTemplate, createWorkspace, ensureExecutable, eventually, makeTemplate } from '../harness.ts';
import { localExample } from '../local.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const site = useSite(async (server) => {
  await ensureExecutable();
  // more people than a menu shows before someone types
  for (const username of [...'bcdefghijk'].map((letter) => `user-${letter}`).concat('zoe'))
    await server.api('POST', '/users', { username, email: `${username}@example.com`, login_type: 'none' });
  const plain = await makeTemplate(server, 'plain', commandTemplate('echo made'));
  const local = await makeTemplate(server, 'local', localExample());
  for (const [template, name] of [
    [plain, 'alpha'],
    [local, 'beta'],
  ] as const) {
    const made = await createWorkspace(server, template, name);
    await buildEnds(server, made.latest_build.id);
  }
});

const row = (page: Page, name: string) => page.getByRole('listitem').filter({ hasText: name });

const statusOf = async (name: string) =>
  (await site.server.api<{ latest_build: { status: string } }>('GET', `/users/me/workspace/${name}`)).body.latest_build
    .status;

test('a row has its main action and an editor in one click, and says what is going on', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/workspaces');
  const alpha = row(page, 'alpha');
  await alpha.getByText('Waits for its agent').filter({ visible: true }).waitFor();
  await row(page, 'beta')
    .getByText(/^Started/)
    .filter({ visible: true })
    .waitFor({ timeout: 30_000 });
  assert.equal((await alpha.boundingBox())?.height, 52);
  assert.doesNotMatch(await alpha.innerText(), /version-/);
  await row(page, 'beta').getByRole('button', { name: 'Open beta in VS Code' }).waitFor();
  await alpha.getByRole('button', { name: 'Stop alpha' }).click();
  await page.getByRole('status').filter({ hasText: 'Stopping admin/alpha' }).waitFor();
  await alpha.getByRole('button', { name: 'Start alpha' }).click({ timeout: 30_000 });
  await eventually('it runs again', async () => (await statusOf('alpha')) === 'running');
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-list');
  assert.deepEqual(errors, []);
});

test('a term that is being written filters nothing, and menus write terms', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  await row(page, 'alpha').waitFor();
  const search = page.getByRole('combobox', { name: 'Search workspaces' });
  await search.press('End');
  await search.pressSequentially(' status:');
  await page.getByRole('option', { name: /status:unhealthy/ }).waitFor();
  // the beginning of a value filters nothing either
  await search.fill('status:fail');
  await page.waitForURL(({ search: query }) => query === '?filter=');
  await row(page, 'alpha').waitFor();
  await search.fill('owner:me status:failed');
  await page.waitForURL(/filter=owner%3Ame(\+|%20)status%3Afailed/);
  const requests = await page.evaluate<string[]>(
    `performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => /workspaces\\?.*status%3A(fail)?(&|$)/.test(name))`,
  );
  assert.deepEqual(requests, [], 'no search for a status without a value');
  await row(page, 'alpha').waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'failed (Status)' }).click();
  await page.getByRole('menuitem', { name: 'running' }).click();
  await page.waitForURL(/status%3Arunning/);
  await row(page, 'alpha').waitFor();
  await page.getByRole('button', { name: 'Template', exact: true }).click();
  await page.getByRole('menuitem', { name: /^local/ }).click();
  await row(page, 'alpha').waitFor({ state: 'detached' });
  await row(page, 'beta').waitFor();
  assert.equal((await search.inputValue()).trim(), 'owner:me status:running template:local');
});

/**
 * Loads the page again, with requests that fail until the person chooses "Try again". The page may ask again by itself
 * meanwhile, as after a focus.
 */
async function reloadWithFailing(page: Page, url: string): Promise<void> {
  await page.addInitScript(`document.addEventListener('click', ({ target }) => {
    if (target.closest('button, [role=menuitem]')?.textContent === 'Try again') window.triedAgain = true;
  }, true)`);
  await page.route(url, async (route) => {
    if (await page.evaluate('window.triedAgain')) return route.continue();
    return route.fulfill({ status: 500, json: { message: 'The database is away.' } });
  });
  await page.reload();
}

test('the menu of owners finds people, and a menu whose values do not load tries again', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/workspaces?filter=');
  await row(page, 'beta').waitFor();
  const owners = page.getByRole('button', { name: 'Owner', exact: true });
  await reloadWithFailing(page, '**/api/v2/users?*');
  await owners.click();
  await page.getByRole('alert').filter({ hasText: 'The database is away.' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  const option = (name: RegExp) => page.getByRole('option', { name });
  await option(/^user-b/).waitFor();
  assert.equal(await option(/^zoe/).count(), 0, 'ten people are shown before someone types');
  await page.keyboard.type('zo');
  await option(/^zoe/).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Enter');
  await page.waitForURL(/owner%3Azoe/);
  await page.getByText('No workspace matches the search').waitFor();
  await page.getByRole('button', { name: 'zoe (Owner)' }).click();
  await option(/^Any owner/).click();
  await page.waitForURL(({ search }) => search === '?filter=');

  await reloadWithFailing(page, '**/api/v2/templates');
  await page.getByRole('button', { name: 'Template', exact: true }).click();
  await page.getByRole('menu').getByRole('alert').waitFor();
  await page.getByRole('menuitem', { name: 'Try again' }).click();
  await page.getByRole('menuitem', { name: /^local/ }).waitFor();
  assert.deepEqual(errors, []);
});

test('a small window has the same filters and actions, and shows reasons whole', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/workspaces?filter=', { viewport: { width: 390, height: 844 } });
  await row(page, 'beta').waitFor();
  const detail = row(page, 'alpha')
    .getByText(/Waits for its agent|never connected/)
    .filter({ visible: true });
  const isCut = await detail.evaluate((element) => {
    type Sizes = Record<'scrollWidth' | 'clientWidth' | 'scrollHeight' | 'clientHeight', number>;
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element as unknown as Sizes;
    return scrollWidth > clientWidth || scrollHeight > clientHeight;
  });
  assert.equal(isCut, false, 'the reason is whole');
  await page.getByRole('button', { name: 'More actions for beta' }).click();
  for (const name of ['Terminal', 'VS Code', 'Copy the SSH command', 'Restart'])
    await page.getByRole('menuitem', { name, exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Status', exact: true }).click();
  await page.getByRole('menuitem', { name: 'running' }).click();
  await page.waitForURL(/status%3Arunning/);
  // rows of the earlier filter are pale
  await page.locator('[role=list]:not([aria-busy])').waitFor();
  await row(page, 'beta').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-list-narrow');
  const width = await page.evaluate<number>('document.documentElement.scrollWidth');
  assert.equal(width, 390, 'nothing is wider than the window');
  assert.deepEqual(errors, []);
});

test('the palette offers the actions of the workspace behind it', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/@admin/beta');
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.keyboard.press('Control+k');
  const palette = page.getByRole('dialog', { name: 'Search and commands' });
  await palette.getByRole('option', { name: 'Open a terminal' }).waitFor();
  const group = palette.getByRole('group', { name: 'admin/beta' }).getByRole('option');
  assert.deepEqual(await group.allInnerTexts(), [
    'Stop',
    'Restart',
    'Open a terminal',
    'Open in VS Code',
    'Open in Cursor',
    'Open in JetBrains',
    'Copy the SSH command',
    'Add to favorites',
    'Build log',
    'Parameters',
    'Schedule',
    'Copy the link to the workspace',
    'Delete',
  ]);
  await group.filter({ hasText: 'Add to favorites' }).click();
  await palette.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Favorite beta', pressed: true }).waitFor();
  await page.keyboard.press('Control+k');
  await palette.getByRole('option', { name: 'Remove from favorites' }).waitFor();
  await palette.getByRole('option', { name: 'Copy the SSH command' }).click();
  await page.getByRole('status').filter({ hasText: 'coder ssh beta' }).waitFor();
  await page.keyboard.press('Control+k');
  await palette.getByRole('option', { name: 'Delete', exact: true }).click();
  const asked = page.getByRole('dialog', { name: /Delete/ });
  await asked.waitFor();
  await asked.getByRole('button', { name: 'Cancel' }).click();
  await asked.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  await palette.getByRole('option', { name: 'Stop', exact: true }).click();
  await palette.waitFor({ state: 'detached' });
  await eventually('it stops', async () => (await statusOf('beta')) === 'stopped');
  assert.deepEqual(errors, []);
});
