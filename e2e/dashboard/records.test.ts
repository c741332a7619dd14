import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { createPerson, createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import type { Browser } from 'playwright-core';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let server: TestServer;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  browser = await startBrowser();
  server = await startTestServer();
  await createPerson(server, 'grace');
  await server.api('PUT', '/users/grace/roles', { body: { roles: ['auditor'] } });
  await server.api('PUT', '/users/grace/password', { body: { password: 'a much better horse' } });
  const template = await createTestTemplate(server, 'docker-with-a-long-name');
  const meta = { description: 'Containers for everyone', default_ttl_ms: 28_800_000, icon: '/icon/docker.svg' };
  await server.api('PATCH', `/templates/${template.id}`, { body: meta });
  await server.api('POST', '/users/me/workspaces', { body: { name: 'backend', template_id: template.id } });
  const wrong = { email: 'grace@example.com', password: 'wrong' };
  await server.api('POST', '/users/login', { token: null, body: wrong });
  await server.services.sql`INSERT INTO connection_logs (id, connect_time, organization_id, workspace_owner_id,
      workspace_id, workspace_name, agent_name, type, ip, user_agent, user_id, connection_id, disconnect_time,
      disconnect_reason, code, slug_or_port)
    SELECT gen_random_uuid(), now() - n * interval '7 minutes', w.organization_id, w.owner_id, w.id, w.name, 'main',
      (ARRAY['ssh', 'vscode', 'reconnecting_pty', 'workspace_app', 'port_forwarding', 'jetbrains'])[1 + n % 6],
      '203.0.113.' || n, 'Mozilla/5.0 Chrome/140.0', w.owner_id, gen_random_uuid(),
      CASE WHEN n > 2 THEN now() - n * interval '6 minutes' END, CASE WHEN n > 2 THEN 'the client is gone' END,
      CASE WHEN n = 6 THEN 255 ELSE 0 END, CASE WHEN n % 6 > 2 THEN '8080' END
    FROM workspaces w, generate_series(1, 40) n`;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('an auditor searches the audit log and opens the difference of a change', needsBrowser, async () => {
  const auditor = await insertPerson(server, 'ada', ['auditor']);
  const { page, errors, context } = await openAs(browser, server, auditor.token);
  await page.goto('/workspaces');
  await page.getByRole('button', { name: 'Admin' }).click();
  await page.getByRole('menuitem', { name: 'Audit log' }).click();
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();
  await page.getByText('grace unsuccessfully attempted to login').waitFor();

  const search = page.getByRole('combobox', { name: 'Search the audit log' });
  await search.fill('resource_t');
  await page.getByRole('option', { name: /resource_type:/ }).click();
  await search.press('t');
  await search.pressSequentially('emplate');
  await page.getByRole('option', { name: 'resource_type:template', exact: true }).click();
  await search.press('End');
  await search.pressSequentially(' action:wr');
  await page.getByRole('option', { name: /action:write/ }).click();
  await search.press('Escape');
  const entries = page.getByRole('list', { name: 'Entries' }).getByRole('listitem');
  await page.getByText('1 to 1 of 1').waitFor();
  assert.match(page.url(), /filter=resource_type%3Atemplate\++action%3Awrite/);
  await entries.getByRole('button', { name: /Details: admin updated template/ }).click();
  const diff = page.getByRole('table', { name: 'Changed fields' });
  await diff.getByText('Containers for everyone').waitFor();
  await diff.getByText('8 h').waitFor();
  await keepScreenshots(page, 'audit-diff');
  await assertAccessible(page);
  await entries.getByRole('link', { name: 'docker-with-a-long-name' }).waitFor();

  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Export' }).click();
  const lines = readFileSync(await (await download).path(), 'utf8')
    .trimEnd()
    .split('\n');
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { action: string }).action),
    ['write'],
  );

  await page.goto('/audit?filter=resource_type:user%20action:write');
  await page
    .getByRole('button', { name: /Details: admin updated user grace/ })
    .first()
    .click();
  await page.getByText('••••••••').first().waitFor();
  await search.fill('colour:red');
  await page.getByText('"colour" is not a valid query param').waitFor();
  await search.fill('username:nobody');
  await search.press('Escape');
  await page.getByRole('button', { name: 'Show all entries' }).click();
  await page.getByText('grace unsuccessfully attempted to login').waitFor();
  await keepScreenshots(page, 'audit');
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
  await keepScreenshots(page, 'audit-phone');
  assert.deepEqual(errors, []);
  await context.close();
});

test('the connection log shows who is connected, by pages, and phones can read it', needsBrowser, async () => {
  const { page, errors, context } = await openAs(browser, server, server.adminToken);
  await page.goto('/connectionlog');
  await page.getByText('1 to 25 of 40').waitFor();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByText('26 to 40 of 40').waitFor();
  await page.goto('/connectionlog?filter=type:ssh%20status:completed');
  await page
    .getByRole('button', { name: /Details: admin connected by SSH to admin\/backend/ })
    .first()
    .click();
  await page.getByText('the client is gone').waitFor();
  await page.getByText('exit 255').waitFor();
  await keepScreenshots(page, 'connections-open');
  await assertAccessible(page);
  await page.goto('/connectionlog');
  await page.getByText('1 to 25 of 40').waitFor();
  await keepScreenshots(page, 'connections');
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
  await keepScreenshots(page, 'connections-phone');
  assert.deepEqual(errors, []);
  await context.close();
});

test(
  'people without the permission see why the page is empty, and no entry in the navigation',
  needsBrowser,
  async () => {
    const person = await insertPerson(server, 'member');
    const { page, context } = await openAs(browser, server, person.token);
    await page.goto('/audit');
    await page.getByText('Only owners and auditors may read').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Admin' }).count(), 0);
    await context.close();
  },
);
