import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type OAuthServer, startOAuthServer } from '@ropewalk/testkit/oauth-server';
import type { Browser, Page } from 'playwright-core';
import { firstUser, makeTemplate, type ServerProcess, startCoderServer } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let forge: OAuthServer;
let server: ServerProcess;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  forge = await startOAuthServer();
  [server, browser] = await Promise.all([
    startCoderServer({
      env: {
        CODER_PROVISIONER_DAEMONS: '1',
        ...forge.env(0, { ID: 'forge' }),
        ...forge.env(1, {
          ID: 'code',
          TYPE: 'github',
          DISPLAY_NAME: 'Code Host',
          DEVICE_FLOW: 'true',
          VALIDATE_URL: `${forge.url}/login/oauth/userinfo`,
          TOKEN_URL: `${forge.url}/login/oauth/access_token`,
          APP_INSTALLATIONS_URL: `${forge.url}/none`,
        }),
      },
    }),
    startBrowser(),
  ]);
  await firstUser(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await forge?.stop();
});

/** Looks at a page in both themes and on a phone. */
async function look(page: Page, name: string): Promise<void> {
  await keepScreenshots(page, name);
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = await page.evaluate('document.documentElement.scrollWidth');
  assert.ok(Number(wide) <= 390, `${name} is ${wide} px wide on a phone`);
  await keepScreenshots(page, `${name}-phone`);
  await page.setViewportSize({ width: 1440, height: 900 });
}

const TEMPLATE = `
data "coder_external_auth" "forge" {
  id = "forge"
}
resource "terraform_data" "machine" {}
`;

test('connects, breaks, reconnects and disconnects an account in the settings', needsBrowser, async (t) => {
  const { page, context, errors } = await openAs(browser, server, server.token);
  t.after(() => context.close());
  await page.goto('/settings/external-auth');
  await page.getByRole('link', { name: 'Connect Forge' }).click();
  await page.waitForURL('**/settings/external-auth');
  await page.getByText(/^Connected /).waitFor();
  await look(page, 'external-accounts');

  // the person ends the access at the provider
  forge.tokens.clear();
  await page.reload();
  await page.getByText('Forge does not accept the token any more.').waitFor();
  await look(page, 'external-accounts-broken');
  await page.getByRole('link', { name: 'Reconnect Forge' }).click();
  await page.getByText(/^Connected /).waitFor();

  await page.getByRole('button', { name: 'Disconnect Forge' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click();
  await page.getByRole('link', { name: 'Connect Forge' }).waitFor();
  assert.equal(forge.tokens.size, 0, 'the token was revoked');
  assert.deepEqual(errors, []);
});

test('connects with a code, and says why an account was not connected', needsBrowser, async (t) => {
  const { page, context } = await openAs(browser, server, server.token);
  t.after(() => context.close());
  forge.declines = true;
  await page.goto('/external-auth/forge');
  await page.getByRole('link', { name: 'Log in with Forge' }).click();
  await page.getByRole('alert').filter({ hasText: 'access_denied' }).waitFor();
  await look(page, 'external-auth-declined');
  forge.declines = false;

  await page.goto('/external-auth/code');
  await page.getByText('ABCD-1234').waitFor();
  await look(page, 'external-auth-device');
  for (const code of forge.devices.keys()) forge.devices.set(code, true);
  await page.getByRole('heading', { name: 'Connected to Code Host' }).waitFor();
  await look(page, 'external-auth-connected');
});

test('the form of a new workspace waits for the account and goes on by itself', needsBrowser, async (t) => {
  await makeTemplate(server, 'forged', { 'main.tf': TEMPLATE });
  const { page, context, errors } = await openAs(browser, server, server.token);
  t.after(() => context.close());
  await page.goto('/templates/forged/workspace?name=dev');
  const create = page.getByRole('button', { name: 'Create workspace' });
  const login = page.getByRole('link', { name: 'Log in with Forge' });
  await login.waitFor();
  assert.ok(await create.isDisabled());
  await look(page, 'create-needs-account');
  const [other] = await Promise.all([context.waitForEvent('page'), login.click()]);
  await other.getByRole('link', { name: 'Log in with Forge' }).click();
  await other.getByRole('heading', { name: 'Connected to Forge' }).waitFor();
  await page.getByText('Connected', { exact: true }).waitFor();
  await create.click();
  await page.waitForURL('**/@admin/dev');
  assert.deepEqual(errors, []);
});

test('administrators see the providers without their secrets', needsBrowser, async (t) => {
  const { page, context } = await openAs(browser, server, server.token);
  t.after(() => context.close());
  await page.goto('/deployment/external-auth');
  await page.getByText(`${forge.url}/login/oauth/authorize`).first().waitFor();
  assert.doesNotMatch((await page.textContent('body')) ?? '', /a secret of the client/);
  await look(page, 'deployment-external-auth');
});
