import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { OAuth2ProviderApp } from '@ropewalk/contract';
import type { Page } from 'playwright-core';
import { PERSON } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const site = useSite();

/** The app: a page that the browser returns to. */
let portal: Server;
let callback = '';
before(async () => {
  portal = createServer((_request, response) => response.end('Welcome to the portal'));
  portal.listen(0, '127.0.0.1');
  await once(portal, 'listening');
  callback = `http://127.0.0.1:${(portal.address() as AddressInfo).port}/callback`;
});
after(() => portal.close());

async function bothSizes(page: Page, name: string): Promise<void> {
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth > innerWidth'), false, 'fits');
    await keepScreenshots(page, `${name}-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

const post = async (path: string, form: Record<string, string>) => {
  const answer = await fetch(`${site.server.url}${path}`, { method: 'POST', body: new URLSearchParams(form) });
  return { status: answer.status, body: (await answer.json()) as Record<string, string> };
};
const statusOf = async (token: string) =>
  (await fetch(`${site.server.url}/api/v2/users/me`, { headers: { authorization: `Bearer ${token}` } })).status;

test('an administrator creates an app, and a person lets it in and ends its access', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/deployment/oauth2-provider/apps');
  await page.getByText('No OAuth2 apps').waitFor();
  await bothSizes(page, 'oauth2-apps-empty');
  await page.getByRole('button', { name: 'Create app' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Team portal');
  await dialog.getByLabel('Callback URL').fill('javascript:alert(1)');
  await dialog.getByRole('button', { name: 'Create app' }).click();
  await dialog.getByText('must not have the scheme').waitFor();
  await dialog.getByLabel('Callback URL').fill(callback);
  await assertAccessible(page);
  await keepScreenshots(page, 'oauth2-app-dialog');
  await dialog.getByRole('button', { name: 'Create app' }).click();
  await page.getByRole('heading', { level: 1, name: 'Team portal' }).waitFor();
  await page.getByRole('button', { name: 'Create secret' }).click();
  await page.getByText('Copy the secret now').waitFor();
  const secret = await page.getByRole('status').locator('code').first().innerText();
  await assertAccessible(page);
  await bothSizes(page, 'oauth2-app');
  const { body: apps } = await site.server.api<OAuth2ProviderApp[]>('GET', '/oauth2-provider/apps');
  const app = apps[0]!;
  await page.reload();
  await page.getByText(`…${secret.slice(-6)}`).waitFor();
  assert.ok(!(await page.content()).includes(secret), 'shown once');

  // the browser of a person who is signed out comes from the app
  const person = await openAs(site.browser, site.server, undefined);
  t.after(() => person.context.close());
  const verifier = randomBytes(32).toString('base64url');
  const query = {
    client_id: app.id,
    response_type: 'code',
    redirect_uri: callback,
    state: 'a&b=c',
    scope: 'coder:workspaces.operate coder:workspaces.access user:read',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  const start = `/oauth2/authorize?${new URLSearchParams(query)}`;
  await person.page.goto(start);
  await person.page.waitForURL('**/login**');
  await person.page.getByLabel('Email').fill(PERSON.email);
  await person.page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  await person.page.getByRole('button', { name: 'Sign in' }).click();
  await person.page.getByRole('heading', { name: 'Let Team portal in?' }).waitFor();
  await person.page.getByText('Connect to workspaces by SSH').waitFor();
  await assertAccessible(person.page);
  await bothSizes(person.page, 'oauth2-consent');
  await person.page.getByRole('button', { name: 'Cancel' }).click();
  await person.page.getByText('Welcome to the portal').waitFor();
  const denied = new URL(person.page.url()).searchParams;
  assert.deepEqual([denied.get('error'), denied.get('state')], ['access_denied', 'a&b=c']);

  await person.page.goto(start);
  await person.page.getByRole('button', { name: 'Allow' }).click();
  await person.page.getByText('Welcome to the portal').waitFor();
  const back = new URL(person.page.url()).searchParams;
  assert.equal(back.get('state'), 'a&b=c');
  const credentials = { client_id: app.id, client_secret: secret };
  const made = await post('/oauth2/tokens', {
    ...credentials,
    grant_type: 'authorization_code',
    code: back.get('code')!,
    redirect_uri: callback,
    code_verifier: verifier,
  });
  assert.deepEqual([made.status, made.body['scope']], [200, query.scope]);
  assert.equal(await statusOf(made.body['access_token']!), 200);
  const next = await post('/oauth2/tokens', {
    ...credentials,
    grant_type: 'refresh_token',
    refresh_token: made.body['refresh_token']!,
  });
  assert.deepEqual(
    [await statusOf(made.body['access_token']!), await statusOf(next.body['access_token']!)],
    [401, 200],
  );

  await person.page.goto('/settings/oauth2-provider');
  await person.page.getByText('Team portal').waitFor();
  await assertAccessible(person.page);
  await bothSizes(person.page, 'oauth2-settings');
  await person.page.getByRole('button', { name: 'End access of Team portal' }).click();
  await person.page.getByRole('dialog').getByRole('button', { name: 'End access' }).click();
  await person.page.getByText('No apps').waitFor();
  assert.equal(await statusOf(next.body['access_token']!), 401);

  await person.page.goto('/oauth2/authorize?client_id=x');
  await person.page.getByRole('heading', { name: 'Unknown app.' }).waitFor();
  await assertAccessible(person.page);
  await keepScreenshots(person.page, 'oauth2-problem');
  assert.deepEqual([...errors, ...person.errors.filter((error) => !error.includes('400'))], []);
});

test('an app that registered itself is marked on the consent page', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/deployment/oauth2-provider/apps');
  await page.getByRole('switch', { name: 'Let apps register themselves' }).click();
  await page.locator('[role=switch][data-state=checked]').waitFor();
  const answer = await fetch(`${site.server.url}/oauth2/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'Editor of somebody',
      redirect_uris: [callback],
      token_endpoint_auth_method: 'none',
    }),
  });
  assert.equal(answer.status, 201);
  const { client_id: id } = (await answer.json()) as { client_id: string };
  const challenge = createHash('sha256').update('x').digest('base64url');
  const query = { client_id: id, response_type: 'code', redirect_uri: callback, code_challenge: challenge };
  await page.goto(`/oauth2/authorize?${new URLSearchParams(query)}`);
  await page.getByText('This app registered itself').waitFor();
  await assertAccessible(page);
  await bothSizes(page, 'oauth2-consent-registered');
  await page.goto(`/oauth2/authorize?${new URLSearchParams({ ...query, response_type: 'token' })}`);
  await page.getByRole('heading', { name: 'Editor of somebody cannot sign you in' }).waitFor();
  await keepScreenshots(page, 'oauth2-problem-registered');
});
