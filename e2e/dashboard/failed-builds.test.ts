import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { buildEnds, commandTemplate, createWorkspace, makeTemplate } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

/** Terraform repeats the output of a failed command, so the reason comes after all of it. */
const COMMAND =
  'for i in $(seq 1 60); do echo "pulling layer $i"; done; echo "pull access denied" for the image >&2; exit 125';
const REASON = 'pull access denied for the image';

const site = useSite(async (server) => {
  const template = await makeTemplate(server, 'images', commandTemplate(COMMAND));
  const made = await createWorkspace(server, template, 'registry');
  await buildEnds(server, made.latest_build.id);
});

/** Whether all of the reason is in the window, without scrolling, and its font. */
const REASON_LOOK = `(() => {
  const list = document.querySelector('[aria-label="The last error of the log"]');
  const element = [...list.querySelectorAll('button span')].find((one) => one.textContent === ${JSON.stringify(REASON)});
  const { top, bottom } = element.getBoundingClientRect();
  return { visible: top >= 0 && bottom <= innerHeight && scrollY === 0, font: getComputedStyle(element).fontFamily };
})()`;
const reasonLook = (page: Page) => page.evaluate<{ visible: boolean; font: string }>(REASON_LOOK);

test('shows the reason of a failed build one click from the list, in its log', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/workspaces');
  await page.getByRole('link', { name: 'registry', exact: true }).click();
  const excerpt = page.getByRole('list', { name: 'The last error of the log' });
  await excerpt.getByText(REASON, { exact: true }).waitFor();
  const look = await reasonLook(page);
  assert.equal(look.visible, true);
  assert.match(look.font, /JetBrains Mono/);

  const log = page.getByRole('log', { name: 'Build log' });
  const [logTop, timelineTop] = [await log.boundingBox(), await page.getByRole('figure').boundingBox()].map(
    (box) => box!.y,
  );
  assert.ok(logTop! < timelineTop!, 'the log comes before the timeline');
  await assertAccessible(page);
  await keepScreenshots(page, 'build-failed');

  // by keys: the first line of the excerpt is far from the end that the log shows
  await excerpt.getByRole('button', { name: /local-exec provisioner error/ }).focus();
  await page.keyboard.press('Enter');
  const marked = log.locator('[aria-current]');
  await marked.filter({ hasText: 'local-exec provisioner error' }).filter({ visible: true }).waitFor();
  assert.equal(await page.evaluate(`document.activeElement.getAttribute('role')`), 'log');
  // also from a section that does not contain the line
  await page.getByRole('combobox', { name: 'Section' }).selectOption('Planning infrastructure');
  await marked.waitFor({ state: 'detached' });
  await excerpt.getByRole('button', { name: REASON }).click();
  await marked.filter({ hasText: REASON }).waitFor();

  await page.getByRole('link', { name: 'Builds' }).click();
  await page.waitForURL('**/builds/1');
  await excerpt.getByText(REASON, { exact: true }).waitFor();
  assert.equal((await reasonLook(page)).visible, true);
  assert.deepEqual(errors, []);
});
