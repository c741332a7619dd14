import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { buildEnds, commandTemplate, createWorkspace, eventually, makeTemplate, PERSON } from '../harness.ts';
import { assertAccessible, browserFor, follow, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const PHONE = { viewport: { width: 390, height: 844 } };
const NAME = 'ledger-refactoring-of-march-8x5';
/** Of a person whose full name is long. */
const MARY = { username: 'mlovelace', name: 'Mary Ada Lovelace of Ockham', email: 'mary@example.com' };

let plain: string;
const site = useSite(async (server) => {
  plain = await makeTemplate(server, 'plain', commandTemplate('true'));
  const made = await createWorkspace(server, plain, NAME);
  await buildEnds(server, made.latest_build.id);
  const organization = (await server.api<{ id: string }>('GET', '/organizations/default')).body.id;
  const user = { ...MARY, password: PERSON.password, organization_ids: [organization] };
  assert.equal((await server.api('POST', '/users', user)).status, 201);
  // the list of owners has active people only
  await server.api('POST', '/users/login', { email: MARY.email, password: PERSON.password });
  const group = { name: 'payments', quota_allowance: 40 };
  assert.equal((await server.api('POST', '/organizations/default/groups', group)).status, 201);
});

const boxOf = async (found: Locator) => (await found.boundingBox())!;
/** A value that a script of the page computes from `element`. */
async function ask<T>(found: Locator, script: string): Promise<T> {
  await found.evaluate((element) => Object.assign(globalThis, { asked: element }));
  return found.page().evaluate<T>(`((element) => { ${script} })(asked)`);
}
const focusedTag = (page: Page) => page.evaluate<string>('document.activeElement.tagName');

test('a row of tabs shows the active one on a phone, and that there is more', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/plain/settings', PHONE);
  for (const [path, label, name] of [
    ['/templates/plain/settings', 'Template', 'Settings'],
    ['/organizations/coder/settings', 'Organization', 'Settings'],
    ['/settings/tokens', 'Your settings', 'Tokens'],
  ] as const) {
    await page.goto(path);
    const row = page.getByRole('navigation', { name: label, exact: true });
    const active = row.getByRole('link', { name, exact: true });
    await eventually(`${name} is in sight at ${path}`, async () => {
      const box = await active.boundingBox();
      return box !== null && box.x >= 0 && box.x + box.width <= 390;
    });
    const mask = await ask<string>(row.locator('.scroll-row'), 'return getComputedStyle(element).maskImage');
    assert.match(mask, /rgb\(0, 0, 0\) 40px/, `${path} fades at its beginning`);
  }
  await page.goto('/templates/plain/docs');
  const row = page.getByRole('navigation', { name: 'Template' }).locator('.scroll-row[data-after="true"]');
  await row.waitFor();
  await keepScreenshots(page, 'tabs-phone');
});

test('a long name breaks between its words, and its badges stay on the line', needsBrowser, async (t) => {
  const { page } = await site.open(t, `/@admin/${NAME}`, PHONE);
  const heading = page.getByRole('heading', { level: 1 });
  await heading.waitFor();
  const lines = await ask<string[]>(
    heading,
    `const lines = new Map();
     const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
     for (let node = walk.nextNode(); node; node = walk.nextNode())
       for (let at = 0; at < node.data.length; at++) {
         const range = document.createRange();
         range.setStart(node, at);
         range.setEnd(node, at + 1);
         const { bottom } = range.getBoundingClientRect();
         lines.set(bottom, (lines.get(bottom) ?? '') + node.data[at]);
       }
     return [...lines.values()];`,
  );
  assert.ok(lines.length > 1, 'it does not fit in one line');
  for (const line of lines.slice(0, -1)) assert.match(line, /[-/]$/, `${lines.join(' | ')}`);
  const status = page.getByText(/^(Starting|Unhealthy)$/).first();
  const last = await ask<number>(heading, 'return [...element.getClientRects()].at(-1).bottom');
  const box = await boxOf(status);
  assert.ok(box.y < last && box.y + box.height <= last + 8, 'the state is next to the last word');
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-phone');
});

test('shows full names before usernames', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/deployment/users', PHONE);
  const row = page.getByRole('row').filter({ hasText: 'mlovelace' });
  await row.waitFor();
  const text = await row.innerText();
  assert.ok(text.indexOf(MARY.name) < text.indexOf(MARY.username), text);
  const [name, username] = [row.getByText(MARY.name), row.getByText(`${MARY.username} · ${MARY.email}`)];
  assert.ok((await boxOf(name)).y < (await boxOf(username)).y, 'each on its own line');
  await page.goto('/templates/plain/workspace');
  const owner = page.getByRole('combobox', { name: 'Owner' });
  await owner.fill('mary');
  const option = page.getByRole('option').filter({ hasText: MARY.username });
  await option.waitFor();
  assert.match(await option.innerText(), new RegExp(`${MARY.name}\\s*${MARY.username}`));
});

test('Tab leaves a search for the next control', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  const search = page.getByRole('combobox', { name: 'Search workspaces' });
  await search.click();
  await search.fill('');
  await page.getByRole('option').first().waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await focusedTag(page), 'BUTTON');
  await page.goto('/templates/plain/workspace');
  await page.getByRole('combobox', { name: 'Owner' }).click();
  await page.getByRole('option').first().waitFor();
  await page.keyboard.press('Tab');
  assert.notEqual(await focusedTag(page), 'BODY');
});

test('draws the letters of identifiers as they are', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/organizations/coder/provisioner-jobs');
  const name = page.getByText(`Build of ${NAME}`, { exact: true });
  await name.waitFor();
  await page.evaluate('document.fonts.ready');
  const drawn = await name.screenshot();
  await ask(name, `element.style.fontFeatureSettings = '"calt" 0'`);
  assert.ok(drawn.equals(await name.screenshot()), 'contextual alternates change nothing');
});

test('tables have one look of links and columns of numbers', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/organizations/coder/provisioners');
  await page.getByRole('columnheader', { name: 'Daemon' }).waitFor();
  const order = await page.getByRole('columnheader').allInnerTexts();
  assert.deepEqual(order, ['Daemon', 'Job', 'State', 'Key', 'Version']);
  const looks = new Set<string>();
  for (const path of [
    '/templates',
    '/templates/plain/versions',
    '/organizations/coder/groups',
    '/organizations/coder/roles',
    '/organizations/coder/provisioners',
  ]) {
    await page.goto(path);
    const link = page.getByRole('cell').getByRole('link').filter({ hasNotText: 'Create workspace' }).first();
    await link.waitFor();
    looks.add(
      await ask<string>(
        link,
        'const style = getComputedStyle(element); return [style.color, style.textDecorationLine].join();',
      ),
    );
  }
  assert.equal(looks.size, 1, [...looks].join(', '));
  await page.goto('/organizations/coder/groups');
  for (const name of ['Members', 'Allowance']) {
    const header = page.getByRole('columnheader', { name });
    await header.waitFor();
    assert.equal(await ask(header, 'return getComputedStyle(element).textAlign'), 'right', name);
  }
  const number = page.getByRole('row').filter({ hasText: 'payments' }).getByRole('cell').last();
  assert.equal(await ask(number, 'return getComputedStyle(element).fontVariantNumeric'), 'tabular-nums');
});

test('the theme follows the account into another browser', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/settings/appearance');
  await page.getByRole('radio', { name: 'Dark' }).click();
  await eventually('the account has the theme', async () => {
    const { body } = await site.server.api<{ theme_preference: string }>('GET', '/users/me/appearance');
    return body.theme_preference === 'dark';
  });
  const other = await openAs(site.browser, site.server, site.server.token, { colorScheme: 'light' });
  t.after(() => other.context.close());
  await other.page.goto('/workspaces');
  await other.page.locator('html[data-theme="dark"]').waitFor();
  await page.getByRole('radio', { name: 'System' }).click();
  await eventually('the account follows the system', async () => {
    const { body } = await site.server.api<{ theme_preference: string }>('GET', '/users/me/appearance');
    return body.theme_preference === 'auto';
  });
  await other.page.reload();
  await other.page.locator('html[data-theme="light"]').waitFor();
});

test('the Admin menu has the users', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  await page.getByRole('button', { name: 'Admin', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Users' }).click();
  await page.waitForURL('**/deployment/users');
});

test('an empty log takes one line', needsBrowser, async (t) => {
  const { page } = await site.open(t, `/@admin/${NAME}`);
  const agent = page.getByRole('region', { name: 'Agent main' });
  await agent.getByRole('button', { name: 'Agent log' }).waitFor();
  const log = agent.getByRole('log');
  // a troubled agent has its log open
  if ((await log.count()) === 0) await agent.getByRole('button', { name: 'Agent log' }).click();
  await log.getByText('The agent has written nothing.').waitFor();
  assert.ok((await boxOf(log)).height < 45);
});

test('notification rows say what is not configured', needsBrowser, async (t) => {
  for (const path of ['/settings/notifications', '/deployment/notifications']) {
    const { page } = await site.open(t, path);
    const row = page.getByRole('listitem').filter({ hasText: 'Workspace Deleted' });
    await row.getByText('Inbox only: email is not configured.').waitFor();
  }
});

test('what is not found has a heading', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  for (const [path, title, action] of [
    ['/nothing/here/at/all', 'There is no page at this address', 'Workspaces'],
    ['/@admin/nowhere', 'Workspace not found', 'Your workspaces'],
    ['/tasks/admin/nowhere', 'Task not found', 'Your tasks'],
    ['/templates/nothing', 'Template "nothing" not found', 'All templates'],
    ['/templates/coder/nothing', 'Template not found', 'All templates'],
    ['/templates/coder/plain/versions/nothing/edit', 'Version not found', 'All versions'],
    ['/templates/new?exampleId=nothing', 'Starter template "nothing" not found', 'All starter templates'],
    ['/starter-templates/nothing', 'Starter template "nothing" not found', 'All starter templates'],
    ['/organizations/nothing', 'Organization not found', 'Your organizations'],
    ['/organizations/coder/groups/nothing', 'Group not found', 'All groups'],
    ['/organizations/coder/roles/nothing', 'Role not found', 'All roles'],
  ] as const) {
    await follow(page, path);
    await page.getByRole('heading', { level: 1, name: title }).waitFor();
    // an event may make the page ask again, and it shows that it loads
    const headings = page.getByRole('heading', { level: 1 });
    await eventually(`one heading on ${path}`, async () => (await headings.count()) === 1);
    await page.getByRole('main').getByRole('link', { name: action, exact: true }).waitFor();
  }
});

test('an empty list shows one sentence and one action, and nothing to filter', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  for (const [path, title, action] of [
    ['/settings/secrets', 'No secrets', 'Add secret'],
    ['/deployment/oauth2-provider/apps', 'No OAuth2 apps', 'Create app'],
    ['/settings/tokens', 'No tokens', 'Create token'],
    ['/settings/external-auth', 'No services to connect', 'External authentication'],
    ['/organizations/coder/provisioner-keys', 'No provisioner keys', 'Create key'],
    ['/organizations/coder/roles', 'No custom roles', 'Create role'],
    ['/organizations/coder/groups/payments', 'No members', 'Add members'],
    ['/connectionlog', 'No connections yet', 'Workspaces'],
  ] as const) {
    await follow(page, path);
    await page.getByRole('heading', { name: title }).waitFor();
    const main = page.getByRole('main');
    const actions = main
      .getByRole('button', { name: action })
      .or(main.getByRole('link', { name: action, exact: true }));
    assert.equal(await actions.count(), 1, path);
    assert.equal(await main.getByRole('searchbox').or(main.getByRole('combobox')).count(), 0, path);
    await keepScreenshots(page, `empty-${path.split('/').at(-1)}`);
  }
});

test('the days of a week share a line on a phone, and addresses of sessions are complete', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/plain/settings/schedule', PHONE);
  const days = page.getByRole('group', { name: 'Days', exact: true }).getByRole('button');
  await days.last().waitFor();
  const boxes = await Promise.all((await days.all()).map(boxOf));
  assert.deepEqual([boxes.length, new Set(boxes.map(({ y }) => y)).size], [7, 1]);
  await page.goto('/settings/security');
  const address = page.getByRole('table', { name: 'Sessions' }).getByText('127.0.0.1').first();
  await address.waitFor();
  assert.equal(await ask<boolean>(address, 'return element.scrollWidth <= element.clientWidth'), true);
});

test('the quota line says what it is', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/workspaces');
  const quota = page.getByText(/^Quota: 0 of 0 credits a day$/);
  await quota.waitFor();
  const bar = await boxOf(quota.locator('xpath=following-sibling::span/span'));
  assert.equal(bar.width, 0, 'nothing is used');
  const made = await site.server.api<{ id: string }>('POST', '/organizations', { name: 'second' });
  assert.equal(made.status, 201);
  t.after(() => site.server.api('DELETE', `/organizations/${made.body.id}`));
  await page.reload();
  await page.getByText(/^Quota in the organization Coder: 0 of/).waitFor();
});

test('a stop can be undone for five seconds, and is not lost with its window', needsBrowser, async (t) => {
  const made = await createWorkspace(site.server, plain, 'stopped');
  await buildEnds(site.server, made.latest_build.id);
  const builds = async () =>
    (await site.server.api<{ transition: string }[]>('GET', `/workspaces/${made.id}/builds`)).body;
  const browser = await browserFor(t, { isComplete: true });
  const { page, context } = await openAs(browser, site.server, site.server.token);
  await page.goto('/@admin/stopped');
  await page.clock.install();
  const stop = page.getByRole('button', { name: 'Stop', exact: true });
  const message = page.getByRole('status').filter({ hasText: 'Stopping admin/stopped' });
  let posts = 0;
  page.on('request', (request) => {
    if (request.method() === 'POST' && request.url().endsWith('/builds')) posts++;
  });
  await stop.click();
  await message.getByText('It begins in five seconds.').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'stop-undo');
  await message.getByRole('button', { name: 'Undo' }).click();
  await message.waitFor({ state: 'detached' });
  await page.clock.fastForward(6_000);
  await stop.click();
  await page.getByRole('button', { name: 'Undo the stop' }).click();
  await page.clock.fastForward(6_000);
  await stop.waitFor();
  assert.equal(posts, 0, 'nothing was sent');

  // the page itself may change meanwhile
  await stop.click();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.clock.fastForward(6_000);
  await eventually('the stop is ordered', async () => (await builds())[0]!.transition === 'stop');
  assert.equal((await builds()).length, 2);
  await eventually('the stop ends', async () => {
    const { body } = await site.server.api<{ latest_build: { status: string } }>('GET', `/workspaces/${made.id}`);
    return body.latest_build.status === 'stopped';
  });

  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await stop.waitFor({ timeout: 30_000 });
  await stop.click();
  await message.waitFor();
  await context.close();
  await eventually('the closed window has ordered the stop', async () => (await builds()).length === 4);
});
