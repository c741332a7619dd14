import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildEnds, commandTemplate, createWorkspace, makeTemplate } from '../harness.ts';
import { needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

/** What happens elsewhere appears in every open tab, also after the server was away. */
let templateId: string;
const site = useSite(async (server) => {
  templateId = await makeTemplate(server, 'plain', commandTemplate('true'));
});

/** More than the six connections that a browser opens to a host. */
const TABS = 8;

test('a change appears in each of eight tabs without a reload', needsBrowser, async () => {
  const { context, page, errors } = await openAs(site.browser, site.server, site.server.token);
  const pages = [page];
  while (pages.length < TABS) pages.push(await context.newPage());
  for (const tab of pages) {
    await tab.goto('/workspaces');
    await tab.getByRole('heading', { name: 'Workspaces', exact: true }).waitFor();
  }
  const [{ id, latest_build }] = await Promise.all([
    createWorkspace(site.server, templateId, 'shared'),
    ...pages.map((tab) => tab.getByRole('link', { name: 'shared', exact: true }).waitFor()),
  ]);
  await buildEnds(site.server, latest_build.id);
  const stop = await site.server.api<{ id: string }>('POST', `/workspaces/${id}/builds`, {
    transition: 'stop',
  });
  await buildEnds(site.server, stop.body.id);
  const since = performance.now();
  await Promise.all(
    pages.map((tab) =>
      tab.getByRole('listitem').getByText('Stopped', { exact: true }).filter({ visible: true }).waitFor(),
    ),
  );
  assert.ok(performance.now() - since < 10_000, `took ${Math.round(performance.now() - since)} ms`);
  assert.deepEqual(errors, []);
  await context.close();
});

test('pages continue after the server was away, without a reload', needsBrowser, async () => {
  const { context, page } = await openAs(site.browser, site.server, site.server.token);
  await page.goto('/workspaces');
  await page.getByRole('link', { name: 'shared', exact: true }).waitFor();
  await page.evaluate('window.loadedOnce = true');
  await site.server.kill();
  await page.getByText('The server cannot be reached').waitFor();
  await site.server.restart();
  await createWorkspace(site.server, templateId, 'afterwards');
  await page.getByRole('link', { name: 'afterwards', exact: true }).waitFor({ timeout: 20_000 });
  await page.getByText('The server cannot be reached').waitFor({ state: 'detached' });
  assert.equal(await page.evaluate('window.loadedOnce'), true);
  await context.close();
});

test('a revoked token leads to the sign-in page, which returns to the same address', needsBrowser, async () => {
  const { body } = await site.server.api<{ key: string }>('POST', '/users/me/keys');
  const { context, page } = await openAs(site.browser, site.server, body.key);
  await page.goto('/workspaces?filter=name%3Ashared');
  await page.getByRole('link', { name: 'shared', exact: true }).waitFor();
  await site.server.api('DELETE', `/users/me/keys/${body.key.split('-')[0]}`);
  await page.waitForURL((url) => url.pathname === '/login');
  assert.equal(new URL(page.url()).searchParams.get('redirect'), '/workspaces?filter=name%3Ashared');
  await context.close();
});
