import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Locator } from 'playwright-core';
import { ensureExecutable, PERSON, type ServerProcess, startCoderServer } from '../harness.ts';
import { keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { shows, startTextBrowser, typed } from './terminal-screen.ts';

/** The whole way of a person who never opens a terminal: an empty server, a template, a workspace, a shell, the end. */
let server: ServerProcess;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  await ensureExecutable();
  [server, browser] = await Promise.all([startCoderServer(), startTextBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('from an empty server to a shell in a workspace, and to its deletion', {
  ...needsBrowser,
  timeout: 180_000,
}, async () => {
  const { context, page, errors } = await openAs(browser, server, undefined);
  page.setDefaultTimeout(30_000);
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  await page.goto('/');
  await page.getByLabel('Email').fill(PERSON.email);
  await page.getByLabel('Username').fill(PERSON.username);
  await page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  let clicks = 0;
  const click = async (target: Locator) => {
    clicks++;
    await target.click();
  };
  await click(button('Create account'));
  await page.waitForURL('**/templates/new/builder');
  // an empty list has one action and no controls without effect
  for (const [path, action] of [
    ['/templates', 'Build a template'],
    ['/workspaces', 'Add a template'],
  ] as const) {
    await page.goto(path);
    const main = page.getByRole('main');
    await main.getByRole('link', { name: action }).waitFor();
    const controls = main.locator('a, button, input, textarea').filter({ visible: true });
    assert.deepEqual(await controls.allInnerTexts(), [action], path);
    await keepScreenshots(page, `empty${path.replace('/', '-')}`);
  }

  await page.goto('/templates/new/builder');
  const suggestion = page.getByRole('region', { name: 'Suggestion' });
  await suggestion.getByRole('heading', { name: 'Quick start' }).waitFor();

  await click(suggestion.getByRole('button', { name: 'Use Quick start' }));
  // the form of a new workspace, as soon as the import has ended
  await page.waitForURL(/\/quickstart\/workspace$/, { timeout: 60_000 });
  await page.getByLabel('Workspace name').fill('dev');
  await click(button('Create workspace'));
  await page.waitForURL('**/@admin/dev');
  // live, without a reload
  const header = page.locator('header').filter({ has: page.getByRole('heading', { level: 1 }) });
  await header.getByText('Running').waitFor({ timeout: 90_000 });
  await page.getByText('Load average').waitFor();
  await keepScreenshots(page, 'workspace-running');

  await click(page.getByRole('link', { name: /^Terminal/ }).first());
  await shows(page);
  await typed(page, 'echo answer-$((6*7))');
  await shows(page, 'answer-42');
  assert.equal(clicks, 4, 'the clicks from "Create account" to a prompt');

  await page.goto('/@admin/dev');
  await button('Stop').click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: 'Stop' });
  if (await confirm.isVisible()) await confirm.click();
  await header.getByText('Stopped').waitFor({ timeout: 60_000 });
  await button('More actions').click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByLabel('Type dev to confirm').fill('dev');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('dev was deleted').waitFor({ timeout: 60_000 });
  assert.deepEqual(errors, []);
  await context.close();
});
