import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { WorkspaceBuild } from '@ropewalk/contract';
import type { Page } from 'playwright-core';
import {
  buildEnds,
  commandTemplate,
  createWorkspace,
  ensureExecutable,
  eventually,
  importVersion,
  makeTemplate,
  type Workspace,
} from '../harness.ts';
import { localExample } from '../local.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

let plain: string;
const site = useSite(async (server) => {
  await ensureExecutable();
  plain = await makeTemplate(server, 'plain', commandTemplate('echo made'));
});

const row = (page: Page, name: string) => page.getByRole('listitem').filter({ hasText: name });

test('lists workspaces with a search that completes, favorites and bulk actions', needsBrowser, async (t) => {
  const [one, two] = [
    await createWorkspace(site.server, plain, 'one'),
    await createWorkspace(site.server, plain, 'two'),
  ];
  await buildEnds(site.server, one!.latest_build.id);
  await buildEnds(site.server, two!.latest_build.id);
  const { page, errors } = await site.open(t, '/workspaces');
  await row(page, 'one').waitFor();
  const requests = await page.evaluate<string[]>(
    `performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => /workspaces\\?|users\\/me$/.test(name))`,
  );
  assert.equal(requests.length, 2, `the page's own hints were used: ${requests.join(' ')}`);
  await assertAccessible(page);
  await keepScreenshots(page, 'workspaces');

  const search = page.getByRole('combobox', { name: 'Search workspaces' });
  assert.equal(await search.inputValue(), 'owner:me');
  await search.fill('na');
  await page.getByRole('option', { name: /^name:/ }).click();
  await search.pressSequentially('two');
  await search.press('Enter');
  await page.waitForURL(/filter=name%3Atwo/);
  await row(page, 'one').waitFor({ state: 'detached' });
  await search.fill('color:blue');
  await page.getByText('The search is not valid').waitFor();
  await page.getByRole('button', { name: /Saved filters/ }).click();
  await page.getByRole('menuitem', { name: /My workspaces/ }).click();
  await row(page, 'one').waitFor();

  await page.getByRole('button', { name: 'Favorite two' }).click();
  await eventually('the server knows the favorite', async () => {
    const { body } = await site.server.api<{ favorite: boolean }>('GET', `/workspaces/${two!.id}`);
    return body.favorite;
  });

  await page.getByRole('checkbox', { name: /Select .*\/one$/ }).click();
  await page.getByRole('checkbox', { name: /Select .*\/two$/ }).click();
  await page.getByText('2 workspaces selected').waitFor();
  await page.getByRole('toolbar').getByRole('button', { name: 'Stop' }).click();
  const dialog = page.getByRole('dialog', { name: 'Stop 2 workspaces' });
  await dialog.waitFor();
  assert.equal(await dialog.getByText('Stops', { exact: true }).count(), 2);
  await dialog.getByRole('button', { name: 'Stop' }).click();
  // the event stream reports the builds
  for (const name of ['one', 'two'])
    await row(page, name).getByText('Stopped', { exact: true }).filter({ visible: true }).waitFor();

  await page.getByRole('button', { name: /Groups/ }).click();
  await page.getByRole('menuitem', { name: 'By template' }).click();
  await page.getByRole('heading', { name: 'plain' }).waitFor();
  await assertAccessible(page);
  assert.deepEqual(errors, []);
});

test('shows agents, apps, live values, logs and the timeline of a running workspace', needsBrowser, async (t) => {
  const local = await makeTemplate(site.server, 'local', localExample());
  const made = await createWorkspace(site.server, local, 'dev');
  await buildEnds(site.server, made.latest_build.id);
  const { page, errors } = await site.open(t, '/@admin/dev');
  const agent = page.getByRole('region', { name: 'Agent main' });
  await agent.getByText('Ready', { exact: true }).waitFor({ timeout: 30_000 });
  await agent.getByText('Load average').waitFor();
  await agent.getByText(/^\d+\.\d+ /).waitFor();
  await agent.getByRole('button', { name: 'Agent log' }).click();
  await agent.getByText('Hello from dev').waitFor();
  assert.equal(await agent.getByRole('link', { name: 'Terminal' }).getAttribute('href'), '/@admin/dev.main/terminal');
  await agent.getByRole('button', { name: 'SSH' }).click();
  await page.getByText('coder ssh dev', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace');

  await page.getByRole('link', { name: 'Builds' }).click();
  await page.waitForURL('**/builds/1');
  const picture = page.getByRole('figure');
  await picture.getByText('Queue').waitFor();
  await picture.getByText('Apply').waitFor();
  await picture.getByText('Agent main').waitFor();
  await page.getByRole('button', { name: 'Show as a table' }).click();
  await page.getByRole('cell', { name: 'Queue', exact: true }).waitFor();
  await page
    .getByRole('textbox', { name: 'Search in build log' })
    .or(page.getByRole('searchbox', { name: 'Search in build log' }))
    .fill('plan to create');
  await page.getByText(/^1 of \d+$/).waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download the log' }).click();
  assert.equal((await download).suggestedFilename(), 'dev-build-1.log');
  await assertAccessible(page);
  await keepScreenshots(page, 'build');
  assert.deepEqual(errors, []);
});

test('says why a build failed, and starts it again', needsBrowser, async (t) => {
  const broken = await makeTemplate(site.server, 'broken', commandTemplate("echo 'no capacity' >&2; exit 7"));
  const made = await createWorkspace(site.server, broken, 'failing');
  await buildEnds(site.server, made.latest_build.id);
  const { page } = await site.open(t, '/admin/failing');
  await page.waitForURL('**/@admin/failing');
  await page.getByText('The workspace could not be started').waitFor();
  await page
    .getByRole('alert')
    .getByText(/no capacity/)
    .waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-failed');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('link', { name: /#2 Start by admin/ }).waitFor();
});

test('says why a build waits, who can fix it and how', needsBrowser, async (t) => {
  const version = await importVersion(site.server, commandTemplate('true'));
  const tagged: Record<string, string> = commandTemplate('true');
  tagged['tags.tf'] = 'data "coder_workspace_tags" "where" {\n  tags = { zone = "moon" }\n}\n';
  const next = await importVersion(site.server, tagged);
  assert.equal(version.job.status, 'succeeded');
  const template = await site.server.api<{ id: string }>('POST', '/organizations/default/templates', {
    name: 'tagged',
    template_version_id: next.id,
  });
  const { page } = await site.open(t, '/templates/tagged/workspace?name=waiting');
  await page.getByText('The build will wait: no provisioner daemon can take it').waitFor();
  await createWorkspace(site.server, template.body.id, 'waiting');
  await page.goto('/@admin/waiting');
  await page.getByText('No provisioner daemon can take this build').waitFor();
  await page.getByText('it lacks zone=moon').waitFor();
  await page.getByText('coder provisioner start --tag zone=moon').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-pending');
  await page.getByRole('button', { name: 'Cancel the build' }).click();
  await page.getByText('The build was canceled').waitFor();
});

test('shows the end of a workspace in every tab, and its resources before that', needsBrowser, async (t) => {
  const made = await createWorkspace(site.server, plain, 'doomed');
  await buildEnds(site.server, made.latest_build.id);
  const other = await site.open(t, '/@admin/doomed');
  await other.page
    .getByText('Running', { exact: true })
    .or(other.page.getByText('Starting', { exact: true }))
    .first()
    .waitFor();
  const { page } = await site.open(t, '/@admin/doomed/settings');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete doomed?' });
  await dialog.getByText('terraform_data.machine').waitFor();
  await assertAccessible(page);
  await dialog.getByLabel('Type doomed to confirm').fill('doomed');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('doomed was deleted').waitFor();
  await other.page.getByText('doomed was deleted').waitFor();
});

test('starts a restarted workspace although its page was closed while it stopped', needsBrowser, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'restart-'));
  t.after(() => rmSync(folder, { recursive: true }));
  // builds run as another user
  chmodSync(folder, 0o755);
  const mayStop = join(folder, 'may-stop');
  const wait = `provisioner "local-exec" {
    when    = destroy
    command = "until test -e '${mayStop}'; do sleep 0.1; done"
  }`;
  const [[file, text]] = Object.entries(commandTemplate('echo made')) as [[string, string]];
  const slow = await makeTemplate(site.server, 'slow', {
    [file]: text.replace('provisioner "local-exec"', `${wait}\n  $&`),
  });
  const made = await createWorkspace(site.server, slow, 'again');
  await buildEnds(site.server, made.latest_build.id);
  const { page, context } = await site.open(t, '/@admin/again');
  await page.getByRole('button', { name: 'Restart' }).click();
  await page.getByText('Restarting', { exact: true }).first().waitFor();
  await context.close();
  writeFileSync(mayStop, '');
  const build = await eventually('the workspace runs again', async () => {
    const { body } = await site.server.api<Workspace & { latest_build: WorkspaceBuild }>(
      'GET',
      `/workspaces/${made.id}`,
    );
    return body.latest_build.status === 'running' && body.latest_build;
  });
  assert.deepEqual([build.build_number, build.transition, build.reason], [3, 'start', 'dashboard']);
});

test('changes the schedule and shows the coming week', needsBrowser, async (t) => {
  const made = await createWorkspace(site.server, plain, 'planned');
  await buildEnds(site.server, made.latest_build.id);
  const { page } = await site.open(t, '/@admin/planned/settings/schedule');
  await page.getByRole('button', { name: 'Add a schedule' }).click();
  await page.getByLabel('Time', { exact: true }).fill('07:45');
  await page.getByLabel('Time zone').selectOption('Europe/Berlin');
  await page.getByLabel('Hours after a start').fill('8');
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-schedule');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const { body } = await site.server.api<Workspace & { autostart_schedule: string; ttl_ms: number }>(
    'GET',
    `/workspaces/${made.id}`,
  );
  assert.equal(body.autostart_schedule, 'CRON_TZ=Europe/Berlin 45 7 * * 1,2,3,4,5');
  assert.equal(body.ttl_ms, 8 * 3_600_000);
});

test('fits a phone', needsBrowser, async (t) => {
  const phone = { viewport: { width: 390, height: 844 } };
  for (const path of ['/workspaces?filter=', '/@admin/one', '/@admin/one/builds/1', '/@admin/one/settings/schedule']) {
    const { page, context } = await site.open(t, path, phone);
    await page.getByRole('heading').first().waitFor();
    await eventually('the page is loaded', async () => (await page.getByText('Loading').count()) === 0);
    const width = await page.evaluate('document.documentElement.scrollWidth');
    assert.equal(width, 390, path);
    await context.close();
  }
});

test('shows names with HTML and emoji as text', needsBrowser, async (t) => {
  const files = commandTemplate("printf '<img src=x onerror=alert(1)> \\\\033[31mred\\\\033[0m\\n'");
  const id = await makeTemplate(site.server, 'hostile', files);
  await site.server.api('PATCH', `/templates/${id}`, {
    display_name: '<b>bold</b> 🚀',
    description: '<script>1</script>',
  });
  const made = await createWorkspace(site.server, id, 'hostile');
  await buildEnds(site.server, made.latest_build.id);
  const { page, errors } = await site.open(t, '/@admin/hostile/builds/1');
  await page.getByText('<b>bold</b> 🚀').first().waitFor();
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await page.goto('/templates/hostile/workspace');
  await page.getByText('<script>1</script>').waitFor();
  assert.deepEqual(errors, []);
});
