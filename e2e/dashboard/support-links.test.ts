import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const CHAT = { name: 'Chat', target: 'https://chat.example', icon: 'chat', location: 'navbar' };
const BUGS = { name: 'Report a bug', target: 'https://bugs.example', icon: 'bug', location: 'dropdown' };
const DOCS = { name: 'Handbook', target: 'https://docs.example', icon: 'docs' };
const site = useSite(async () => {}, { env: { CODER_SUPPORT_LINKS: JSON.stringify([CHAT, BUGS, DOCS]) } });

test(
  'shows support links in the bar or in the menu of the account, and all of them on a phone',
  needsBrowser,
  async (t) => {
    const { page, errors } = await site.open(t, '/workspaces');
    await page.setViewportSize({ width: 1440, height: 700 });
    const bar = page.getByRole('navigation', { name: 'Main' });
    assert.equal(await bar.getByRole('link', { name: 'Chat' }).getAttribute('href'), CHAT.target);
    assert.equal(await bar.getByRole('link', { name: 'Handbook' }).count(), 0);
    await assertAccessible(page);
    await keepScreenshots(page, 'support-links-1440');
    const account = async () => {
      await page.getByRole('button', { name: 'Your account' }).click();
      for (const { name, target } of [BUGS, DOCS])
        assert.equal(await page.getByRole('menuitem', { name }).getAttribute('href'), target);
      assert.equal(await page.getByRole('menuitem', { name: 'Chat' }).count(), 0);
      await page.keyboard.press('Escape');
    };
    await account();
    await page.setViewportSize({ width: 390, height: 700 });
    await account();
    await page.getByRole('button', { name: 'Navigation' }).click();
    assert.equal(await page.getByRole('menuitem', { name: 'Chat' }).getAttribute('href'), CHAT.target);
    await keepScreenshots(page, 'support-links-390');
    assert.deepEqual(errors, []);
  },
);
