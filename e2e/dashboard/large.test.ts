import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestTemplate, eventually, fillWorkspaces, startTestServer, type TestServer } from '@ropewalk/testkit';
import type { Browser, Page } from 'playwright-core';
import { needsBrowser, openAs, startBrowser } from './browser.ts';

/** Much more than a person has: long lists, long logs, and hours of changes. */
const WORKSPACES = 10_000;
const LINES = 100_000;
const WATCHED = 500;

let server: TestServer;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  [server, browser] = await Promise.all([startTestServer(), startBrowser()]);
  const template = await createTestTemplate(server, 'base', {});
  await fillWorkspaces(server.services.sql, template.id, WORKSPACES);
  await server.services.sql`VACUUM ANALYZE`;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const OBSERVE = `
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({ type: 'longtask', buffered: true });
`;

/** The longest time that the page did not react, in ms. Generous, because other tests run at the same time. */
async function assertNoStall(page: Page, what: string): Promise<void> {
  const longest = await page.evaluate<number>('window.longest');
  assert.ok(longest < 1_000, `${what}: the page did not react for ${Math.round(longest)} ms`);
}

test('scrolls through 10,000 workspaces', { ...needsBrowser, timeout: 120_000 }, async (t) => {
  const { page, context, errors } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.addInitScript(OBSERVE);
  await page.goto('/workspaces?filter=');
  await page.getByText(`${WORKSPACES.toLocaleString('en-US')} workspaces`).waitFor();
  const rows = page.getByRole('listitem');
  assert.ok((await rows.count()) < 60, 'only what is in the window is rendered');
  for (const share of [0.2, 0.5, 0.8, 1]) {
    await page.evaluate(`scrollTo(0, document.documentElement.scrollHeight * ${share})`);
    await rows.getByRole('link').first().waitFor();
  }
  const showsEnd = () =>
    eventually('the last row is there', async () => {
      const last = await rows.last().getAttribute('aria-posinset');
      return last === String(WORKSPACES) && (await rows.last().getByRole('link').count()) > 0;
    });
  await showsEnd();
  // rows on a phone differ in height, so the end moves while they are measured
  await page.setViewportSize({ width: 320, height: 844 });
  await page.evaluate('scrollTo(0, 0)');
  await page.locator('[aria-posinset="1"]').getByRole('link').first().waitFor();
  for (const _ of [1, 2, 3]) await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
  await showsEnd();
  const tops = await rows.evaluateAll((all) =>
    all.map((one) => {
      const { top, bottom } = (
        one as unknown as { getBoundingClientRect(): { top: number; bottom: number } }
      ).getBoundingClientRect();
      return { top, bottom };
    }),
  );
  for (const [at, { top }] of tops.entries())
    assert.ok(at === 0 || Math.abs(top - tops[at - 1]!.bottom) <= 1, `row ${at} touches the one before`);
  await assertNoStall(page, 'scrolling');
  assert.deepEqual(errors, []);
});

test('shows and searches a log of 100,000 lines', { ...needsBrowser, timeout: 120_000 }, async (t) => {
  const [row] = await server.services.sql<{ job_id: string; owner: string; name: string }[]>`
    SELECT b.job_id, u.username AS owner, w.name FROM workspaces w JOIN users u ON u.id = w.owner_id
    JOIN workspace_builds b ON b.id = w.latest_build_id ORDER BY w.name LIMIT 1`;
  // the longest line that the server stores, as the first one
  await server.services.sql`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
    SELECT ${row!.job_id}, now(), 'provisioner', 'info', 'Applying',
      CASE WHEN n = 1 THEN repeat('x', 1024) WHEN n % 1000 = 0 THEN E'\x1b[32mdone\x1b[0m line-' || n ELSE 'line-' || n END
    FROM generate_series(1, ${LINES}::int) n`;
  const { page, context, errors } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.addInitScript(OBSERVE);
  await page.goto(`/@${row!.owner}/${row!.name}/builds/1`);
  await page.getByText(`line-${LINES}`, { exact: false }).first().waitFor({ timeout: 60_000 });
  await page.getByRole('searchbox', { name: /^Search in/ }).fill('line-54321');
  await page.getByText('1 of 1', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('line-54321', { exact: true }).waitFor();
  await page.getByRole('searchbox', { name: /^Search in/ }).fill('done');
  await page.getByText(`1 of ${LINES / 1000}`).waitFor();
  assert.equal(await page.getByText('[32m').count(), 0, 'colors, not their codes');
  await assertNoStall(page, 'a long log');
  assert.deepEqual(errors, []);
});

/** The maximum growth of the heap of the page. */
const GROWTH = 1.15;

test('keeps its memory flat while 500 workspaces change', { ...needsBrowser, timeout: 180_000 }, async (t) => {
  const { sql, events } = server.services;
  const changed = await sql<{ id: string; owner_id: string; template_id: string; build: string }[]>`
    SELECT id, owner_id, template_id, latest_build_id AS build FROM workspaces WHERE NOT deleted
    ORDER BY running DESC, owner_sort, name_sort LIMIT ${WATCHED}`;
  const { page, context } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.goto('/workspaces?filter=');
  await page.getByRole('listitem').first().waitFor();
  const session = await context.newCDPSession(page);
  const heap = async (): Promise<number> => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize;
  };
  // each round is what 500 workspaces do in ten minutes, and what a person looks at meanwhile
  const round = async (n: number) => {
    for (const [at, one] of changed.entries()) {
      await sql`UPDATE workspaces SET last_used_at = now() WHERE id = ${one.id}`;
      await events.publish(sql, 'workspace_changed', {
        workspace_id: one.id,
        owner_id: one.owner_id,
        template_id: one.template_id,
        build_id: one.build,
      } as never);
      if (at % 100 === 0) await page.evaluate(`scrollTo(0, ${at * 61})`);
    }
    await page.evaluate('scrollTo(0, 0)');
    await page.getByRole('listitem').first().getByText('just now').waitFor();
    t.diagnostic(`round ${n}: ${((await heap()) / 1e6).toFixed(1)} MB`);
  };
  for (const n of [1, 2]) await round(n);
  const before = await heap();
  for (const n of [3, 4, 5, 6]) await round(n);
  // the page may still be reading what changed last. A leak stays
  let after = 0;
  await eventually('the heap is about as large as before', async () => {
    after = await heap();
    return after < before * GROWTH;
  }).catch((cause) => assert.fail(`the heap grew from ${before} to ${after} bytes: ${cause}`));
});

test('shows the right times with a wrong clock, and recovers from a sleep', needsBrowser, async (t) => {
  const { page, context } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.clock.install({ time: Date.now() + 24 * 3_600_000 });
  await page.goto('/deployment/users?filter=admin');
  // seen within the last minutes, not a day ago or in the future
  await page
    .getByRole('row')
    .nth(1)
    .getByText(/^(just now|\d+ minutes? ago)$/)
    .waitFor();
  // the computer sleeps for an hour without a network
  await context.setOffline(true);
  await page.clock.fastForward(3_600_000);
  await server.api('PUT', '/users/me/profile', { body: { username: 'admin', name: 'Renamed Meanwhile' } });
  await context.setOffline(false);
  await page.clock.fastForward(60_000);
  await page.getByText('Renamed Meanwhile').waitFor();
});
