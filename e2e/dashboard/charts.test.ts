import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const site = useSite(undefined, { env: { CODER_PROVISIONER_DAEMONS: '0' } });
const DAYS = 30;
const dates = Array.from({ length: DAYS }, (_, at) => new Date(Date.UTC(2026, 9, 1 + at)).toISOString().slice(0, 10));

test('a chart shows the values of the day that the pointer or the arrow keys choose', needsBrowser, async () => {
  const { page, context, errors } = await openAs(site.browser, site.server, site.server.token);
  await page.route('**/api/v2/insights/user-status-counts*', async (route) => {
    const counts = (base: number) => dates.map((date, at) => ({ date: `${date}T00:00:00Z`, count: base + at }));
    await route.fulfill({ json: { status_counts: { active: counts(20), dormant: counts(5) } } });
  });
  // on two days nothing was built
  await page.route('**/api/v2/insights/build-times*', async (route) => {
    const entries = dates.filter((_, at) => at !== 10 && at !== 12).map((date) => ({ date, p50: 20_000, p95: 90_000 }));
    await route.fulfill({ json: { entries } });
  });
  await page.goto('/deployment/overview');
  const users = page.getByRole('slider', { name: 'Users by status' });
  await users.waitFor();
  await page.waitForFunction("document.querySelector('[role=slider] path') !== null");
  const box = (await users.boundingBox())!;
  await page.mouse.move(box.x + box.width - 5, box.y + 20);
  await page.getByText('Dormant: 34').waitFor();
  await page.mouse.move(0, 0);
  await page.getByText('Dormant: 34').waitFor({ state: 'detached' });
  await users.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await users.getAttribute('aria-valuetext'), 'Oct 29, 2026: Active 48, Dormant 33');
  await page.getByText('Active: 48').waitFor();
  await keepScreenshots(page, 'charts');
  await page.keyboard.press('Escape');
  assert.equal(await page.getByText('Active: 48').count(), 0);

  const builds = page.getByRole('slider', { name: 'Build times' });
  assert.equal(await builds.locator('path').count(), 8, 'an area and a line on each side of the gap, for two series');
  assert.equal(await builds.locator('circle').count(), 2, 'the day between two gaps is a point');
  await assertAccessible(page);
  assert.deepEqual(errors, []);
  await context.close();
});
