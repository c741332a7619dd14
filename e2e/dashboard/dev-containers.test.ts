import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import { startTestDocker, type TestDocker, writeDevcontainer } from '@ropewalk/testkit/docker/index';
import type { Browser } from 'playwright-core';
import { coder } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

let server: TestServer;
let dev: TestWorkspace;
let docker: TestDocker;
let browser: Browser;
let config: string;
const folder = mkdtempSync(join(tmpdir(), 'platform-devcontainers-'));
before(async () => {
  if (needsBrowser.skip) return;
  docker = startTestDocker();
  [server, browser] = await Promise.all([startTestServer(), startBrowser()]);
  const api = join(folder, 'payments-api');
  config = writeDevcontainer(api, {
    customizations: { coder: { apps: [{ slug: 'docs', displayName: 'API docs', url: 'http://localhost:8080' }] } },
  });
  dev = await startTestWorkspace(server, 'dev', {
    env: { PATH: `${docker.bin}:${process.env['PATH']}` },
    executable: docker.coder,
    agent: {
      displayApps: { webTerminal: true, sshHelper: true, portForwardingHelper: true },
      devcontainers: [
        { name: 'payments-api', workspaceFolder: api, configPath: config },
        { name: 'website', workspaceFolder: join(folder, 'website'), configPath: '' },
      ],
    },
  });
});
after(async () => {
  await browser?.close();
  await dev?.stop();
  await server?.stop();
  docker?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('shows dev containers live, and rebuilds one whose configuration changed', needsBrowser, async (t) => {
  const { context, page } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.goto('/@admin/dev');
  const one = page.getByRole('listitem').filter({ hasText: config });
  await one.getByText('Running').waitFor();
  const failed = page.getByRole('listitem').filter({ hasText: join(folder, 'website') });
  await failed.getByText('Failed', { exact: true }).waitFor();
  await failed.getByText(/"devcontainer up" failed/).waitFor();

  const sub = page.getByRole('region', { name: 'Agent payments-api' });
  await sub.getByText('dev container in main').waitFor({ timeout: 60_000 });
  await sub.getByRole('link', { name: 'Terminal' }).waitFor();
  await sub.getByText('API docs').waitFor();
  await sub.getByText('Ready').waitFor();
  await keepScreenshots(page, 'dev-containers');
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
  assert.ok(Number(overflow) <= 0, `the page scrolls sideways by ${overflow} px at 390 px`);
  await keepScreenshots(page, 'dev-containers-phone');
  await page.setViewportSize({ width: 1440, height: 900 });

  const later = new Date(Date.now() + 60_000);
  utimesSync(config, later, later);
  await one.getByText('Configuration changed').waitFor();
  utimesSync(config, new Date(0), new Date(0));
  await one.getByRole('button', { name: 'Rebuild' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rebuild' }).click();
  await one.getByText('Starting').waitFor();
  await one.getByText('Running').waitFor({ timeout: 60_000 });
  await sub.getByText('Ready').waitFor({ timeout: 60_000 });
  assert.equal(await one.getByText('Configuration changed').count(), 0);
});

test('cancels a start that hangs', needsBrowser, async (t) => {
  const { context, page } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  await page.goto('/@admin/dev');
  const website = join(folder, 'website');
  writeDevcontainer(website, { initializeCommand: 'sleep 86399' });
  const one = page.getByRole('listitem').filter({ hasText: website });
  await one.getByRole('button', { name: 'Start' }).click();
  await one.getByText('Starting').waitFor();
  await one.getByRole('button', { name: 'Cancel' }).click();
  await one.getByText('Stopped').waitFor();
  rmSync(website, { recursive: true });
  await one.getByRole('button', { name: 'Start' }).click();
  await one.getByText('Failed', { exact: true }).waitFor();
});

test('coder ssh enters the dev container by its name, and coder show lists it', needsBrowser, async () => {
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    CODER_URL: server.url,
    CODER_SESSION_TOKEN: server.adminToken,
    CODER_CONFIG_DIR: join(folder, 'config'),
  };
  const where = 'echo "in:$STAND_IN_CONTAINER:$CODER_WORKSPACE_AGENT_NAME"';
  const inside = await coder(['ssh', 'dev.payments-api', where], { env });
  assert.match(inside.stdout, /^in:[0-9a-f]{64}:payments-api$/m, inside.stderr);
  const outside = await coder(['ssh', 'dev', where], { env });
  assert.match(outside.stdout, /^in::main$/m, outside.stderr);
  const { stdout } = await coder(['show', 'dev'], { env });
  assert.match(
    stdout,
    /^└─ main .*\n(.*\n)*\s+dev container payments-api: running\n(.*\n)*\s+└─ payments-api \(linux/m,
  );
  assert.match(stdout, /dev container website: error, "devcontainer up" failed/);
});
