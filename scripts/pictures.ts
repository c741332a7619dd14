// `npm run pictures` takes the pictures of the first five minutes for README.md: an empty server, a template, a workspace, a shell.
// It needs Chromium and Terraform, and writes to docs/images.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openAs } from '../e2e/dashboard/browser.ts';
import { shows, startTextBrowser, typed } from '../e2e/dashboard/terminal-screen.ts';
import { ensureExecutable, PERSON, startCoderServer } from '../e2e/harness.ts';

const images = join(dirname(import.meta.dirname), 'docs/images');

/** Whether each picture in the window is there. Those below it are loaded later. */
const ICONS_LOADED =
  '[...document.images].every((image) => image.complete || image.getBoundingClientRect().top > innerHeight)';

await ensureExecutable();
const server = await startCoderServer({ bundled: true });
const browser = await startTextBrowser();
try {
  const { page } = await openAs(browser, server, undefined, { viewport: { width: 1200, height: 760 } });
  page.setDefaultTimeout(60_000);
  const picture = async (name: string) => {
    await page.evaluate('document.fonts.ready');
    await page.waitForFunction(ICONS_LOADED);
    writeFileSync(join(images, `first-${name}.png`), await page.screenshot());
  };
  const button = (name: string) => page.getByRole('button', { name, exact: true });

  await page.goto('/');
  await page.getByLabel('Email').fill(PERSON.email);
  await page.getByLabel('Username').fill(PERSON.username);
  await page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  await button('Create account').click();
  await page.waitForURL('**/templates/new/builder');
  const suggestion = page.getByRole('region', { name: 'Suggestion' });
  await suggestion.getByRole('heading', { name: 'Quick start' }).waitFor();
  await picture('template');

  await suggestion.getByRole('button', { name: 'Use Quick start' }).click();
  await page.waitForURL(/\/quickstart\/workspace$/);
  await page.getByLabel('Workspace name').fill('dev');
  await picture('parameters');

  await button('Create workspace').click();
  await page.waitForURL('**/@admin/dev');
  const header = page.locator('header').filter({ has: page.getByRole('heading', { level: 1 }) });
  await header.getByText('Running').waitFor({ timeout: 120_000 });
  await page.getByText('Load average').waitFor();
  await page.getByRole('link', { name: 'Website', exact: true }).waitFor();
  await picture('workspace');

  await page
    .getByRole('link', { name: /^Terminal/ })
    .first()
    .click();
  await shows(page);
  await typed(page, 'ls && uname -sr');
  await shows(page, 'Linux');
  await picture('terminal');
} finally {
  await browser.close();
  await server.stop();
}
