import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { runAgent } from '@ropewalk/testkit';
import { AGENT, buildEnds, createWorkspace, makeTemplate, type ServerProcess } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const TEMPLATE = `${AGENT}resource "coder_external_agent" "machine" {
  agent_id = coder_agent.main.id
}
resource "coder_app" "docs" {
  agent_id     = coder_agent.main.id
  slug         = "docs"
  display_name = "Docs"
  url          = "https://example.com"
  external     = true
  tooltip      = "The **handbook** of the [team](https://example.com/team)."
}
`;

let template: string;
async function setUp(server: ServerProcess) {
  template = await makeTemplate(server, 'outside', { 'main.tf': TEMPLATE });
  const workspace = await createWorkspace(server, template, 'dev');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
}
const site = useSite(setUp);

interface Credentials {
  agent_token: string;
  command: string;
}

test('shows the command that connects a machine, without its token until a person asks', needsBrowser, async (t) => {
  const { body: workspace } = await site.server.api<{ id: string }>('GET', '/users/me/workspace/dev');
  const path = `/workspaces/${workspace.id}/external-agent/main/credentials`;
  const { body: credentials } = await site.server.api<Credentials>('GET', path);
  const { page, errors, context } = await site.open(t, '/@admin/dev');
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const card = page.getByRole('region', { name: 'Agent main' });
  await card.getByText('Run this command in a shell on the machine').waitFor();
  await card.getByText('Not connected', { exact: true }).waitFor();
  const masked = credentials.command.replace(credentials.agent_token, '••••••••');
  await card.getByText(masked).waitFor();
  assert.ok(!(await page.content()).includes(credentials.agent_token));
  await assertAccessible(page);
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    const wider = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
    assert.equal(wider, false, `nothing is wider than ${width}`);
    await keepScreenshots(page, `external-agent-${width}`);
  }
  await card.getByRole('button', { name: 'Copy the command' }).click();
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), credentials.command);
  await card.getByRole('button', { name: 'Show the token' }).click();
  await card.getByText(credentials.command).waitFor();
  await card.getByRole('button', { name: 'Hide the token' }).click();
  await card.getByText(masked).waitFor();
  assert.deepEqual(errors, []);
});

test("shows an app's tooltip as Markdown", needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/@admin/dev');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('region', { name: 'Agent main' }).getByRole('link', { name: 'Docs' }).hover();
  const tooltip = page.getByRole('tooltip');
  await tooltip.getByText('The handbook of the team.').waitFor({ state: 'attached' });
  assert.equal(await tooltip.locator('strong').first().textContent(), 'handbook');
  await keepScreenshots(page, 'app-tooltip');
  assert.deepEqual(errors, []);
});

test('shows a tooltip whose code arrives after the pointer or the focus', needsBrowser, async (t) => {
  const made = await createWorkspace(site.server, template, 'held');
  await buildEnds(site.server, made.latest_build.id);
  const path = `/workspaces/${made.id}/external-agent/main/credentials`;
  const { body: credentials } = await site.server.api<Credentials>('GET', path);
  const dir = mkdtempSync(join(tmpdir(), 'external-agent-'));
  const agent = runAgent({
    ...{ url: site.server.url, token: credentials.agent_token, version: 'v0.1.0', log: silentLogger },
    ...{ scriptDataDir: dir, logDir: dir, env: { PATH: process.env['PATH'], HOME: dir } },
  });
  t.after(async () => {
    await agent.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  for (const how of ['hover', 'focus'] as const) {
    const { page, errors } = await site.open(t, '/account');
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    await page.route(/tooltip/, async (route) => {
      await asked;
      await route.continue();
    });
    await page.goto('/workspaces');
    // of the workspace whose agent is connected
    const link = page.getByRole('link', { name: 'Docs' });
    await link[how]();
    ask();
    await page.getByRole('tooltip').getByText('The handbook of the team.').waitFor({ state: 'attached' });
    const focused = await page.evaluate('document.activeElement.textContent');
    if (how === 'focus') assert.equal(focused, 'Docs');
    assert.deepEqual(errors, []);
  }
});
