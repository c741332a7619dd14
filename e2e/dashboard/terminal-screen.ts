import { eventually } from '@ropewalk/testkit/wait';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from './browser.ts';

/** Starts Chromium without WebGL, so that terminals draw with elements, which tests can read. */
export const startTextBrowser = (): Promise<Browser> => startBrowser({ args: ['--disable-3d-apis'] });

const SCREEN = `[...document.querySelectorAll('[role=tabpanel]:not([hidden]) .xterm-rows')].map((rows) => rows.innerText.replaceAll('\\u00a0', ' ')).join('')`;

/** What the visible terminal shows. Empty while the page loads. */
export const screenText = (page: Page): Promise<string> => page.evaluate<string>(SCREEN).catch(() => '');

/** Waits until the visible terminal shows a text: by default, anything, such as a prompt. */
export async function shows(page: Page, text: string | RegExp = /\S/): Promise<void> {
  await eventually(`the terminal shows ${text}`, async () => {
    const screen = await screenText(page);
    return typeof text === 'string' ? screen.includes(text) : text.test(screen);
  });
}

/** Types a line and Enter into the visible terminal. */
export async function typed(page: Page, line: string): Promise<void> {
  await page.locator('[role=tabpanel]:not([hidden]) .xterm-helper-textarea').focus();
  await page.keyboard.type(line);
  await page.keyboard.press('Enter');
}
