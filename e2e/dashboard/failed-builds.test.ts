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

/** Holds the log back from the error that contains the reason, until the returned function is called. */
async function holdReason(page: Page): Promise<() => void> {
  let send = () => {};
  const sent = new Promise<void>((resolve) => {
    send = resolve;
  });
  await page.routeWebSocket(/\/logs\?/, (socket) => {
    const server = socket.connectToServer();
    let last = Promise.resolve();
    server.onMessage((message) => {
      const { log_level, output } = JSON.parse(String(message)) as { log_level: string; output: string };
      if (log_level === 'error' && output.includes(REASON)) last = last.then(() => sent);
      last = last.then(() => socket.send(message));
    });
    server.onClose((code, reason) => {
      last = last.then(() => socket.close({ code, reason }));
    });
  });
  return send;
}

test('shows the reason of a failed build one click from the list, in its log', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/workspaces');
  const sendRest = await holdReason(page);
  await page.getByRole('link', { name: 'registry', exact: true }).click();
  const excerpt = page.getByRole('list', { name: 'The last error of the log' });
  const log = page.getByRole('log', { name: 'Build log' });
  await log.getByText('pulling layer 60', { exact: true }).waitFor();
  const action = page.getByRole('link', { name: 'Edit the template' });
  const before = await action.boundingBox();
  assert.equal(await excerpt.count(), 0, 'the last error of a part of the log is not the reason');
  sendRest();
  await excerpt.getByText(REASON, { exact: true }).waitFor();
  const moved = (await action.boundingBox())!.y - before!.y;
  // by a line of a reason that wraps, and the border of a gap
  assert.ok(Math.abs(moved) <= 30, `the excerpt moved what is below by ${moved} px`);
  const look = await reasonLook(page);
  assert.equal(look.visible, true);
  assert.match(look.font, /JetBrains Mono/);

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
  // the address changes first, and the page before stays with its own excerpt where it was scrolled to
  await page.getByRole('heading', { name: 'Build 1: Start by admin' }).waitFor();
  await excerpt.getByText(REASON, { exact: true }).waitFor();
  assert.equal((await reasonLook(page)).visible, true);
  assert.deepEqual(errors, []);
});
