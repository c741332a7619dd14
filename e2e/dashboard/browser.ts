import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

/** Chromium without the parts for windows. Its contexts open almost three times as fast. */
const HEADLESS_SHELL = '/usr/bin/chromium-headless-shell';
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export interface BrowserOptions {
  /** Additional flags, such as --host-resolver-rules. */
  args?: string[];
  /** What people have. Only this one shows notifications, and runs the handlers of a page when its window closes. */
  isComplete?: boolean;
}

/** Where Chromium is, or undefined. The tests are skipped without it, except where `REQUIRE_NO_SKIPS` is set. */
export const chromiumPath = ({ isComplete }: BrowserOptions = {}): string | undefined =>
  [...(isComplete ? [] : [HEADLESS_SHELL]), ...CHROMIUM].find((path) => existsSync(path));

/** The options of a test that needs a browser. */
export const needsBrowser = {
  skip: chromiumPath() || process.env.REQUIRE_NO_SKIPS ? false : `needs Chromium at one of ${CHROMIUM.join(', ')}`,
};

/** Starts Chromium: its headless shell if that is installed. */
export function startBrowser(options: BrowserOptions = {}): Promise<Browser> {
  const { args = [] } = options;
  const path = chromiumPath(options);
  if (!path) throw new Error(`Chromium is not installed: install it at one of ${CHROMIUM.join(', ')}`);
  return chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-dev-shm-usage', ...args] });
}

export interface Viewer {
  context: BrowserContext;
  page: Page;
  /** Errors of the page: exceptions, console errors and reports of the Content-Security-Policy. */
  errors: string[];
}

const built = new Map<string, Promise<unknown>>();

/** Waits until the server has its pages. In a checkout with changes it builds them first, which can take a while. */
function pagesBuilt(url: string): Promise<unknown> {
  let wait = built.get(url);
  if (!wait) {
    const isBuilt = async () =>
      (await (await fetch(url, { headers: { accept: 'text/html' } })).text()).includes('id="root"');
    wait = eventually('the server has its pages', isBuilt, 120_000);
    built.set(url, wait);
  }
  return wait;
}

/** Opens a separate window for a person: with their session, or signed out. */
export async function openAs(
  browser: Browser,
  server: { url: string },
  token: string | undefined,
  options: BrowserContextOptions = {},
): Promise<Viewer> {
  await pagesBuilt(server.url);
  const context = await browser.newContext({
    baseURL: server.url,
    viewport: { width: 1440, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  if (token) await context.addCookies([{ name: 'coder_session_token', value: token, url: server.url, httpOnly: true }]);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const errors: string[] = [];
  page.on('pageerror', (err) => errors.push(String(err)));
  page.on('console', (message) => {
    // answers with an error status are listed, too, and pages handle those
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      errors.push(message.text());
  });
  return { context, page, errors };
}

/** Opens another page of the dashboard without loading the document again, as a link does. */
export async function follow(page: Page, path: string): Promise<void> {
  await page.evaluate(
    `history.pushState({}, '', ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent('popstate'));`,
  );
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const WCAG = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] };
/** The rules whose results depend on the theme. */
const COLORS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };

/** The violations that axe finds in the page, one line each. */
async function axeViolations(page: Page, rules: { type: string; values: string[] }): Promise<string[]> {
  return page.evaluate(async (runOnly) => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(
          options: object,
        ): Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run({ runOnly });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html.slice(0, 200)} ${failureSummary.slice(0, 300)}`),
    );
  }, rules);
}

/** Fails if axe finds a violation of WCAG 2.2 AA in the page, in either theme. */
export async function assertAccessible(page: Page): Promise<void> {
  // evaluated by the debugger, which the Content-Security-Policy does not concern
  await page.evaluate(axeSource);
  for (const [theme, rules] of [
    ['light', WCAG],
    ['dark', COLORS],
  ] as const) {
    await useTheme(page, theme);
    assert.deepEqual(await axeViolations(page, rules), [], `${page.url()} in the ${theme} theme`);
  }
}

/** Changes the theme, as the appearance settings do. */
export async function useTheme(page: Page, theme: 'light' | 'dark'): Promise<void> {
  const value = JSON.stringify(theme);
  await page.evaluate(`localStorage.setItem('theme', ${value}); document.documentElement.dataset.theme = ${value};`);
}

const SHOTS = process.env.SCREENSHOTS;

/** Keeps a screenshot of the page in both themes, if `SCREENSHOTS` names a folder. */
export async function keepScreenshots(page: Page, name: string): Promise<void> {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  for (const theme of ['light', 'dark'] as const) {
    await useTheme(page, theme);
    writeFileSync(join(SHOTS, `${name}-${theme}.png`), await page.screenshot());
  }
}

/** A browser until the end of a test. */
export async function browserFor(t: TestContext, options: BrowserOptions = {}): Promise<Browser> {
  const browser = await startBrowser(options);
  t.after(() => browser.close());
  return browser;
}
