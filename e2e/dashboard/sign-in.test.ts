import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Github, startGithub } from '@ropewalk/testkit/github';
import { CLIENT, type IdentityProvider, startIdentityProvider } from '@ropewalk/testkit/identity-provider';
import type { Browser } from 'playwright-core';
import { PERSON, type ServerProcess, startCoderServer, tokenOf } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let idp: IdentityProvider;
let github: Github;
let server: ServerProcess;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  [idp, github] = await Promise.all([startIdentityProvider(), startGithub()]);
  [server, browser] = await Promise.all([
    startCoderServer({
      env: {
        CODER_PROVISIONER_DAEMONS: '0',
        CODER_OIDC_ISSUER_URL: idp.url,
        CODER_OIDC_CLIENT_ID: CLIENT.id,
        CODER_OIDC_CLIENT_SECRET: CLIENT.secret,
        CODER_OIDC_SIGN_IN_TEXT: 'Acme Login',
        CODER_OIDC_AUTH_URL_PARAMS: '{"prompt":"login"}',
        CODER_OIDC_EMAIL_DOMAIN: 'example.com',
        CODER_OAUTH2_GITHUB_CLIENT_ID: 'client',
        CODER_OAUTH2_GITHUB_CLIENT_SECRET: 'secret',
        CODER_OAUTH2_GITHUB_ENTERPRISE_BASE_URL: github.url,
        CODER_OAUTH2_GITHUB_ALLOW_EVERYONE: 'true',
        CODER_OAUTH2_GITHUB_ALLOW_SIGNUPS: 'true',
        CODER_OAUTH2_GITHUB_DEVICE_FLOW: 'true',
      },
    }),
    startBrowser(),
  ]);
  const made = await server.api('POST', '/users/first', PERSON);
  assert.equal(made.status, 201);
  server.token = await tokenOf(server, PERSON);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await idp?.stop();
  github?.stop();
});

const person = (sub: string, email = `${sub}@example.com`) => {
  idp.people.set(sub, { email, email_verified: true, preferred_username: sub, name: `${sub} of Acme` });
  idp.next = sub;
};

test('signs in with the provider and returns to the page that needed it', needsBrowser, async () => {
  person('grace', 'grace@elsewhere.example');
  const viewer = await openAs(browser, server, undefined);
  const { page } = viewer;
  await page.goto('/cli-auth');
  await page.waitForURL('**/login**');
  await page.getByRole('link', { name: 'Acme Login' }).click();
  await page.getByRole('alert').filter({ hasText: 'not in an allowed domain' }).waitFor();
  await keepScreenshots(page, 'login-rejected');
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  await keepScreenshots(page, 'login-rejected-phone');
  await page.reload();
  await page.getByRole('link', { name: 'Acme Login' }).waitFor();
  assert.equal(await page.getByRole('alert').count(), 0, 'an error is shown once');
  person('grace');
  await page.getByRole('link', { name: 'Acme Login' }).click();
  await page.waitForURL('**/cli-auth');
  await page.getByRole('button', { name: 'Create a token' }).waitFor();
  await page.goto('/settings/security');
  await page.getByRole('definition').filter({ hasText: 'Acme Login' }).waitFor();
  assert.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the session');
  await page.setViewportSize({ width: 1440, height: 900 });
  const other = await openAs(browser, server, undefined);
  await other.page.goto('/login?redirect=/settings/account');
  await other.page.getByRole('link', { name: 'Acme Login' }).click();
  await other.page.waitForURL('**/settings/account');
  await page.reload();
  await page.getByText('This session').waitFor();
  await keepScreenshots(page, 'security-provider');
  await assertAccessible(page);
  await page.getByRole('button', { name: /^End the session from/ }).click();
  // the other browser notices by itself
  await other.page.waitForURL('**/login**');
  await other.context.close();
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});

test('changes from a password to the provider, and an administrator changes it back', needsBrowser, async () => {
  const body = { username: 'hedy', email: 'hedy@example.com', password: 'hedy correct horse' };
  assert.equal((await server.api('POST', '/users', body)).status, 201);
  person('hedy');
  const viewer = await openAs(browser, server, undefined);
  const { page } = viewer;
  await page.goto('/settings/security');
  await page.getByLabel('Email').fill(body.email);
  await page.getByLabel('Password', { exact: true }).fill(body.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign in with Acme Login instead' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Current password').fill('a wrong one');
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await dialog.getByText('is not the current password').waitFor();
  await page.mouse.move(0, 0);
  await keepScreenshots(page, 'convert');
  await assertAccessible(page);
  await dialog.getByLabel('Current password').fill(body.password);
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL('**/settings/security');
  await page.getByRole('definition').filter({ hasText: 'Acme Login' }).waitFor();

  const admin = await openAs(browser, server, server.token);
  await admin.page.goto('/deployment/users');
  await admin.page.getByRole('button', { name: 'Actions for hedy' }).click();
  await admin.page.getByRole('menuitem', { name: 'Change sign-in method' }).click();
  const change = admin.page.getByRole('dialog');
  await change.getByLabel('Password', { exact: true }).check();
  await change.getByRole('button', { name: 'Generate a password' }).click();
  await admin.page.mouse.move(0, 0);
  await keepScreenshots(admin.page, 'login-type');
  await assertAccessible(admin.page);
  await change.getByRole('button', { name: 'Change' }).click();
  await change.getByText('signs in with a password now').waitFor();
  // hedy's session has ended
  await page.waitForURL('**/login**');
  assert.deepEqual([...viewer.errors, ...admin.errors], []);
  await admin.context.close();
  await viewer.context.close();
});

test('signs in with GitHub by a code on another device', needsBrowser, async () => {
  const viewer = await openAs(browser, server, undefined);
  const { page } = viewer;
  await page.goto('/login?redirect=/settings/tokens');
  await page.getByRole('link', { name: 'GitHub' }).click();
  await page.waitForURL('**/login/device**');
  await page.getByText('ABCD-1234').waitFor();
  assert.equal(
    await page.getByRole('link', { name: 'Open GitHub' }).getAttribute('href'),
    'https://github.test/login/device',
  );
  await keepScreenshots(page, 'device');
  await assertAccessible(page);
  const person = { id: 1, login: 'octo', email: 'octo@example.com', organizations: {}, teams: {} };
  for (const code of github.devices.keys()) github.devices.set(code, person);
  await page.waitForURL('**/settings/tokens');
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});

test('maps claims to groups, roles and organizations, with a preview of their values', needsBrowser, async () => {
  person('ada');
  idp.people.set('ada', { ...idp.people.get('ada'), groups: ['engineers', 'finance'], roles: ['lead'] });
  const visitor = await openAs(browser, server, undefined);
  await visitor.page.goto('/login');
  await visitor.page.getByRole('link', { name: 'Acme Login' }).click();
  await visitor.page.waitForURL((url) => !url.pathname.startsWith('/login') && !url.pathname.includes('callback'));
  const viewer = await openAs(browser, server, server.token);
  const { page } = viewer;
  assert.equal((await server.api('POST', '/organizations/default/groups', { name: 'platform' })).status, 201);
  await page.goto('/organizations/coder/idp-sync');
  await page.getByLabel('Name of the claim').fill('groups');
  await page.getByText('finance').waitFor();
  await page.getByLabel('Value of the claim').fill('engineers');
  await page.getByRole('combobox', { name: 'Gives the group' }).click();
  await page.getByRole('option', { name: 'platform' }).click();
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('switch', { name: 'Create missing groups' }).click();
  await page.getByText('finance, a new group').waitFor();
  await page.mouse.move(0, 0);
  await keepScreenshots(page, 'idp-sync');
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true);
  await keepScreenshots(page, 'idp-sync-phone');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The sync was changed.').waitFor();
  const groups = await server.api<{ field: string; mapping: object }>(
    'GET',
    '/organizations/default/settings/idpsync/groups',
  );
  assert.equal(groups.body.field, 'groups');
  assert.deepEqual(Object.keys(groups.body.mapping), ['engineers']);
  await page.getByRole('tab', { name: 'Roles' }).click();
  await page.getByLabel('Name of the claim').fill('roles');
  await page.getByText('lead', { exact: true }).waitFor();
  await page.goto('/deployment/idp-org-sync');
  await page.getByRole('switch', { name: 'Keep everyone in the default organization' }).waitFor();
  await keepScreenshots(page, 'idp-org-sync');
  await assertAccessible(page);
  assert.deepEqual([...viewer.errors, ...visitor.errors], []);
  await viewer.context.close();
  await visitor.context.close();
});
