import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { ensureExecutable, firstUser, PERSON, type ServerProcess, startCoderServer } from '../harness.ts';
import { assertAccessible, follow, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let server: ServerProcess;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  // the install page waits for it
  await ensureExecutable();
  [server, browser] = await Promise.all([
    startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '1' } }),
    startBrowser(),
  ]);
  await server.api('POST', '/users/first', PERSON);
  const { email, password } = PERSON;
  const answer = await server.api<{ session_token: string }>('POST', '/users/login', { email, password });
  server.token = answer.body.session_token;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('the security page shows how connections and stored secrets are encrypted', needsBrowser, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'security-page-'));
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const names = ['-subj', '/CN=coder.example.com', '-addext', 'subjectAltName=DNS:coder.example.com'];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '5', ...names, '-keyout', key, '-out', cert];
  execFileSync('openssl', made, { stdio: 'ignore' });
  const encrypted = await startCoderServer({
    env: {
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_TLS_ENABLE: 'true',
      CODER_TLS_ADDRESS: '127.0.0.1:0',
      CODER_TLS_CERT_FILE: cert,
      CODER_TLS_KEY_FILE: key,
      CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: randomBytes(32).toString('base64'),
    },
  });
  try {
    await firstUser(encrypted);
    await encrypted.api('GET', '/users/me/gitsshkey');
    const { page } = await openAs(browser, encrypted, encrypted.token);
    await page.goto('/deployment/security');
    await page.getByText('Encrypts new secrets').waitFor();
    for (const text of ['coder.example.com', 'Expires soon', 'No certificate is valid for', '1 secret'])
      await page.getByText(text).first().waitFor();
    await assertAccessible(page);
    await keepScreenshots(page, 'deployment-security');
    await page.setViewportSize({ width: 390, height: 1_400 });
    await keepScreenshots(page, 'deployment-security-phone');
    await page.context().close();
  } finally {
    await encrypted.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});

test('each page opens, is accessible in both themes and fits a phone', needsBrowser, async () => {
  const viewer = await openAs(browser, server, server.token);
  const { page } = viewer;
  const pages: Record<string, string> = {
    '/settings/account': 'Account',
    '/settings/appearance': 'Appearance',
    '/settings/schedule': 'Schedule',
    '/settings/security': 'Security',
    '/settings/ssh-keys': 'SSH key',
    '/settings/external-auth': 'External accounts',
    '/settings/secrets': 'Secrets',
    '/settings/tokens': 'Tokens',
    '/settings/tokens/new': 'Create a token',
    '/settings/oauth2-provider': 'OAuth2 apps',
    '/deployment/oauth2-provider/apps': 'OAuth2 apps',
    '/organizations/new': 'Create an organization',
    '/organizations': 'Members',
    '/organizations/default/settings': 'Settings',
    '/organizations/default/provisioners': 'Provisioners',
    '/organizations/default/provisioner-jobs': 'Jobs',
    '/organizations/default/provisioner-keys': 'Provisioner keys',
    '/deployment': 'Overview',
    '/deployment/appearance': 'Appearance',
    '/deployment/general': 'General',
    '/deployment/security': 'Security',
    '/deployment/network': 'Network',
    '/deployment/userauth': 'User authentication',
    '/deployment/external-auth': 'External authentication',
    '/deployment/notifications': 'Notifications',
    '/deployment/observability': 'Observability',
    '/deployment/workspace-proxies': 'Workspace proxies',
    '/deployment/users': 'Users',
    '/deployment/users/create': 'Create a user',
    '/deployment/licenses': 'Licenses',
    '/deployment/premium': 'Licenses',
    '/health': 'Access URL',
    '/health/database': 'Database',
    '/health/derp': 'Relay (DERP)',
    '/health/derp/regions/1': 'Relay (DERP)',
    '/health/websocket': 'WebSocket',
    '/health/workspace-proxy': 'Workspace proxies',
    '/health/provisioner-daemons': 'Provisioner daemons',
    '/health/servers': 'Servers',
    '/health/background-tasks': 'Background tasks',
    '/install': 'Install the command line',
    '/icons': 'Icons',
  };
  await page.goto('/settings/account');
  for (const [path, heading] of Object.entries(pages)) {
    await page.setViewportSize({ width: 1440, height: 900 });
    await follow(page, path);
    await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    await keepScreenshots(page, path.slice(1).replaceAll('/', '-'));
    await assertAccessible(page);
    await page.setViewportSize({ width: 390, height: 844 });
    const beyond = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
    assert.equal(beyond, 0, `${path} scrolls sideways on a phone`);
  }
  assert.deepEqual(viewer.errors, []);
  await viewer.context.close();
});
