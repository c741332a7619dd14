import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type MailServer, startMailServer } from '@ropewalk/server/app/notification/testing/mail-server';
import { createPerson, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import type { Browser } from 'playwright-core';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let mail: MailServer;
let server: TestServer;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  [browser, mail] = await Promise.all([startBrowser({ isComplete: true }), startMailServer()]);
  server = await startTestServer({
    env: { CODER_EMAIL_SMARTHOST: `127.0.0.1:${mail.port}`, CODER_EMAIL_FROM: 'coder@example.com' },
  });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await mail?.close();
});

const fitsPhone = async (page: import('playwright-core').Page) => {
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
};

test('a new notification appears in the open inbox, and reading it lowers the count', needsBrowser, async () => {
  const helper = await createPerson(server, 'helga', ['user-admin']);
  const { page, errors, context } = await openAs(browser, server, server.adminToken);
  await page.goto('/workspaces');
  await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor();
  const made = { username: 'newbie', email: 'newbie@example.com', password: 'newbie correct horse' };
  await server.api('POST', '/users', { body: made, token: helper.token });
  await server.api('PUT', '/users/newbie/status/suspend', { token: helper.token });
  await page.getByRole('button', { name: 'Notifications: 2 unread' }).click();
  await page.getByRole('heading', { name: "User account 'newbie' was suspended" }).waitFor();
  await page.locator('.skeleton:visible').first().waitFor({ state: 'detached' });
  await keepScreenshots(page, 'inbox');
  await assertAccessible(page);
  await page.getByRole('button', { name: "Mark as read: User account 'newbie' was suspended" }).click();
  await page.getByRole('button', { name: "Mark as unread: User account 'newbie' was suspended" }).waitFor();
  await fitsPhone(page);
  await keepScreenshots(page, 'inbox-phone');
  // the two are delivered at the same time, in either order
  const suspended = page.getByRole('listitem').filter({ hasText: "'newbie' was suspended" });
  await suspended.getByRole('link', { name: 'View accounts' }).click();
  await page.waitForURL('**/deployment/users?filter=newbie');
  await page.getByRole('button', { name: /^Notifications/ }).click();
  await page.getByRole('button', { name: 'Mark all as read' }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});

test('a pushed message appears while no page is open', needsBrowser, async () => {
  const { page, context } = await openAs(browser, server, server.adminToken);
  await context.grantPermissions(['notifications'], { origin: server.url });
  await page.goto('/settings/notifications');
  const own = page.getByRole('switch', { name: 'Notifications in this browser' });
  await own.waitFor();
  assert.equal(await own.getAttribute('aria-checked'), 'false');
  // no push service can be reached here, so the browser delivers the message by itself
  await page.evaluate("navigator.serviceWorker.register('/push-worker.js').then(() => navigator.serviceWorker.ready)");
  const devtools = await context.newCDPSession(page);
  const registration = new Promise<string>((resolve) => {
    devtools.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      if (registrations[0]) resolve(registrations[0].registrationId);
    });
  });
  await devtools.send('ServiceWorker.enable');
  const message = {
    title: 'Workspace stopped',
    body: 'It was idle.',
    icon: '',
    actions: [{ label: 'Open', url: '/x' }],
  };
  const registrationId = await registration;
  const data = JSON.stringify(message);
  const shown = await eventually('the notification', async () => {
    // the browser drops a message for a worker that is still starting
    await devtools.send('ServiceWorker.deliverPushMessage', { origin: server.url, registrationId, data });
    const all = (await page.evaluate(
      `navigator.serviceWorker.ready.then((own) => own.getNotifications())
        .then((all) => all.map(({ title, body, data }) => [title, body, data.url]))`,
    )) as string[][];
    return all[0];
  });
  assert.deepEqual(shown, ['Workspace stopped', 'It was idle.', '/x']);
  await context.close();
});

test('people choose their notifications, and administrators their methods', needsBrowser, async () => {
  const { page, errors, context } = await openAs(browser, server, server.adminToken);
  await page.goto('/settings/notifications');
  const created = page.getByRole('switch', { name: 'User account created' });
  await created.waitFor();
  assert.equal(await created.getAttribute('aria-checked'), 'true');
  assert.equal(await page.getByRole('switch', { name: 'Workspace Created' }).getAttribute('aria-checked'), 'false');
  await created.click();
  await eventually('the choice', async () => {
    const { body } = await server.api<{ disabled: boolean }[]>('GET', '/users/me/notifications/preferences');
    return body[0]?.disabled === true;
  });
  await page.reload();
  await page.getByRole('switch', { name: 'User account created', checked: false }).waitFor();
  await keepScreenshots(page, 'notification-settings');
  await assertAccessible(page);
  await fitsPhone(page);
  await page.setViewportSize({ width: 1440, height: 900 });

  await page.goto('/deployment/notifications');
  await page.getByRole('combobox', { name: 'Method of Template Deleted' }).click();
  await page.getByRole('option', { name: 'Inbox only' }).click();
  await page.getByRole('combobox', { name: 'Method of Template Deleted' }).getByText('Inbox only').waitFor();
  await page.getByRole('button', { name: 'Send a test to yourself' }).click();
  await eventually('the test', async () =>
    mail.mails.some(({ text }) => text.includes('Subject: A test notification')),
  );
  await page.getByRole('switch', { name: 'Pause notifications' }).click();
  await page.getByText('New notifications wait.').waitFor();
  const isPaused = async () =>
    (await server.api<{ notifier_paused: boolean }>('GET', '/notifications/settings')).body.notifier_paused;
  // the page shows the wish before the answer
  await eventually('the pause', isPaused);
  await page.getByText('--email-smarthost').first().waitFor();
  await keepScreenshots(page, 'deployment-notifications');
  await assertAccessible(page);
  await fitsPhone(page);
  const resumed = await server.api('PUT', '/notifications/settings', { body: { notifier_paused: false } });
  assert.equal(resumed.status, 200);
  assert.equal(await isPaused(), false);
  assert.deepEqual(errors, []);
  await context.close();
});

test('a forgotten password is set with the link of the mail', needsBrowser, async () => {
  await createPerson(server, 'forgetful');
  const { page, errors, context } = await openAs(browser, server, undefined);
  await page.goto('/login');
  await page.getByRole('link', { name: 'Forgot password?' }).click();
  await page.getByLabel('Email').fill('forgetful@example.com');
  await keepScreenshots(page, 'reset-password');
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Send the link' }).click();
  await page.getByText('Check your email').waitFor();
  const text = await eventually(
    'the mail',
    async () =>
      mail.mails.find(({ to, text: all }) => to.includes('forgetful@example.com') && all.includes('otp='))?.text,
  ).catch(async (cause) => {
    const { sql } = server.services;
    const messages = await sql`SELECT status, attempts, last_error, next_attempt_at - now() AS due
      FROM notification_messages WHERE method = 'smtp' ORDER BY created_at`;
    throw new Error(`no mail: ${JSON.stringify(messages)}`, { cause });
  });
  const link = /http\S+\/reset-password\/change\?\S+/.exec(text)![0];
  await page.goto(new URL(link).pathname + new URL(link).search);
  await page.getByText('for forgetful@example.com').waitFor();
  await page.getByLabel('New password', { exact: true }).fill('a horse to remember');
  await page.getByLabel('New password again').fill('another horse');
  await page.getByRole('button', { name: 'Set the password' }).click();
  await page.getByText('The passwords differ.').waitFor();
  await page.getByLabel('New password again').fill('a horse to remember');
  await keepScreenshots(page, 'change-password');
  await assertAccessible(page);
  await fitsPhone(page);
  await page.getByRole('button', { name: 'Set the password' }).click();
  await page.getByText('Your password is changed.').waitFor();
  await page.getByLabel('Email').fill('forgetful@example.com');
  await page.getByLabel('Password', { exact: true }).fill('a horse to remember');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Workspaces', level: 1 }).waitFor();
  assert.deepEqual(errors, []);
  await context.close();
});
