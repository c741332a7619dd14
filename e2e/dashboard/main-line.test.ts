import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
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
  await button('Create account').click();
  await page.waitForURL('**/templates');

  await page.goto('/starter-templates/local');
  await page.getByRole('link', { name: 'Use this template' }).click();
  await page.getByLabel('Name (required)').fill('machine');
  await button('Create template').click();
  await page.waitForURL(/\/machine\/docs$/);

  await page.getByRole('link', { name: 'Create workspace' }).click();
  await page.getByLabel('Workspace name').fill('dev');
  await button('Create workspace').click();
  await page.waitForURL('**/@admin/dev');
  // live, without a reload
  const header = page.locator('header').filter({ has: page.getByRole('heading', { level: 1 }) });
  await header.getByText('Running').waitFor({ timeout: 90_000 });
  await page.getByText('Load average').waitFor();
  await keepScreenshots(page, 'workspace-running');

  const terminal = page.getByRole('link', { name: /^Terminal/ }).first();
  const address = (await terminal.getAttribute('href'))!;
  await page.goto(address);
  await shows(page);
  await typed(page, 'echo answer-$((6*7))');
  await shows(page, 'answer-42');

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
