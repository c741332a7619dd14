import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PERSON, tokenOf } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, type Viewer } from './browser.ts';
import { useSite } from './site.ts';

const site = useSite(undefined, { env: { CODER_PROVISIONER_DAEMONS: '0' }, signedUp: false });

async function signIn({ page }: Viewer, password: string): Promise<void> {
  await page.getByLabel('Email').fill(PERSON.email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('sets the server up with its first user, whatever page was opened', needsBrowser, async () => {
  const viewer = await openAs(site.browser, site.server, undefined);
  const { page } = viewer;
  const held = Promise.withResolvers<void>();
  await page.route('**/api/v2/users/first', async (route) => {
    await held.promise;
    await route.fallback();
  });
  const methods = page.waitForResponse('**/api/v2/users/authmethods');
  await page.goto('/');
  await (await methods).finished();
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  assert.equal(await page.locator('input').count(), 0, 'a form that is about to be replaced');
  held.resolve();
  await page.waitForURL('**/setup');
  await page.getByLabel('Email').fill(PERSON.email);
  assert.equal(await page.getByLabel('Username').inputValue(), 'admin', 'suggested from the address');
  await page.getByLabel('Password', { exact: true }).fill('short');
  await page.getByText('It must be at least 8 characters long.').waitFor();
  await keepScreenshots(page, 'setup');
  await assertAccessible(page);
  await page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  await page.getByText('This password is good.').waitFor();
  await page.getByLabel('Username').fill('Not A Name');
  await page.getByRole('button', { name: 'Create account' }).click();
  assert.match(
    await page.locator('[id$="-error"]:not(.hidden)').first().innerText(),
    /\S/,
    'the error is at its field',
  );
  await page.getByLabel('Username').fill(PERSON.username);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.waitForURL('**/templates/new/builder');
  await page.goto('/settings/account');
  await page.getByRole('button', { name: 'Your account' }).waitFor();
  assert.deepEqual(viewer.errors, []);
  await page.goto('/setup');
  await page.waitForURL((url) => url.pathname !== '/setup');
  await viewer.context.close();
});

test('signs in and returns to the page that needed it', needsBrowser, async () => {
  const viewer = await openAs(site.browser, site.server, undefined);
  const { page } = viewer;
  await page.goto('/settings/tokens?a=b');
  await page.waitForURL('**/login?redirect=%2Fsettings%2Ftokens%3Fa%3Db');
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await keepScreenshots(page, 'login');
  await assertAccessible(page);
  await signIn(viewer, 'a wrong one');
  await page.getByRole('alert').filter({ hasText: 'Incorrect email or password' }).waitFor();
  await signIn(viewer, PERSON.password);
  await page.waitForURL('**/settings/tokens?a=b');
  assert.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the session');

  // the session ends while the page is open: the page notices by itself
  await page.evaluate(`fetch('/api/v2/users/logout', { method: 'POST' })`);
  await page.waitForURL('**/login?redirect=%2Fsettings%2Ftokens%3Fa%3Db');
  await signIn(viewer, PERSON.password);
  await page.getByRole('heading', { name: 'Tokens', level: 1 }).waitFor();
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});

test('shows the name and logo of the deployment to strangers', needsBrowser, async (t) => {
  const body = { application_name: 'Acme', logo_url: '/icon/docker.svg', announcement_banners: [] };
  const headers = { 'Coder-Session-Token': await tokenOf(site.server, PERSON), 'Content-Type': 'application/json' };
  const put = await fetch(`${site.server.url}/api/v2/appearance`, {
    method: 'PUT',
    headers,
    body: JSON.stringify(body),
  });
  assert.equal(put.status, 200);
  const { page } = await site.open(t, '/login', { token: undefined });
  await page.getByText('Acme', { exact: true }).waitFor();
  await page.locator('img[src="/icon/docker.svg"]').waitFor();
  await keepScreenshots(page, 'login-logo');
  await assertAccessible(page);
});

test('does not leave for another host after signing in', needsBrowser, async () => {
  const viewer = await openAs(site.browser, site.server, undefined);
  await viewer.page.goto(`/login?${new URLSearchParams({ redirect: '//evil.example/' })}`);
  await signIn(viewer, PERSON.password);
  await viewer.page.waitForURL('**/workspaces');
  await viewer.context.close();
});

test('creates a session token for a terminal after a click', needsBrowser, async () => {
  const viewer = await openAs(site.browser, site.server, undefined);
  const { page } = viewer;
  await page.goto('/cli-auth');
  await page.waitForURL('**/login**');
  await signIn(viewer, PERSON.password);
  await page.getByRole('button', { name: 'Create a token' }).waitFor();
  await keepScreenshots(page, 'cli-auth');
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByRole('button', { name: 'Copy the token' }).waitFor();
  const token = await page.getByRole('status').locator('code').first().innerText();
  const me = await fetch(`${site.server.url}/api/v2/users/me`, { headers: { 'Coder-Session-Token': token } });
  assert.equal(((await me.json()) as { email: string }).email, PERSON.email);
  await assertAccessible(page);
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});

test('shows the API reference without an account', needsBrowser, async () => {
  const viewer = await openAs(site.browser, site.server, undefined);
  const { page } = viewer;
  await page.goto('/api-reference');
  await page.getByRole('heading', { name: 'Coder API' }).waitFor();
  await page.getByRole('searchbox', { name: 'Find an operation' }).fill('buildinfo');
  await page.getByRole('link', { name: '/buildinfo' }).click();
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('"provisioner_api_version"').last().waitFor();
  await page.goto('/api-reference#postUsers');
  await page.getByText('Sign in to send this request as yourself.').waitFor();
  await keepScreenshots(page, 'api-reference');
  await assertAccessible(page);
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});
