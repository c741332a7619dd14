import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Template, Workspace } from '@ropewalk/contract';
import { buildEnds, commandTemplate, createWorkspace, eventually, makeTemplate } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

let templateId: string;
let workspace: Workspace;
const site = useSite(async (server) => {
  templateId = await makeTemplate(server, 'payments', commandTemplate('echo made'));
  const made = await createWorkspace(server, templateId, 'ledger');
  await buildEnds(server, made.latest_build.id);
  workspace = (await server.api<Workspace>('GET', `/workspaces/${made.id}`)).body;
});

const template = async () => (await site.server.api<Template>('GET', `/templates/${templateId}`)).body;
const current = async () => (await site.server.api<Workspace>('GET', `/workspaces/${workspace.id}`)).body;

test('sets the policies of a template', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/payments/settings/schedule');
  await page.getByLabel('Hours that activity adds').fill('2');
  await page.getByLabel('Minutes before a stop that its owner is reminded').fill('45');
  await page.getByLabel('Hours until a failed start is stopped').fill('1');
  await page.getByLabel('Days without use until a workspace is dormant').fill('30');
  await page.getByLabel('Days until a dormant workspace is deleted').fill('14');
  await page.getByRole('group', { name: 'Days', exact: true }).getByRole('button', { name: 'Sat' }).click();
  await page.getByLabel('Weeks between the stops').fill('2');
  const start = page.getByRole('group', { name: 'Days on which workspaces may start' });
  for (const day of ['Sat', 'Sun']) await start.getByRole('button', { name: day }).click();
  await assertAccessible(page);
  await keepScreenshots(page, 'template-schedule');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const saved = await template();
  assert.deepEqual(saved.autostop_requirement, { days_of_week: ['saturday'], weeks: 2 });
  assert.deepEqual(saved.autostart_requirement.days_of_week.length, 5);
  assert.deepEqual(
    [saved.activity_bump_ms, saved.failure_ttl_ms, saved.time_til_dormant_ms, saved.time_til_dormant_autodelete_ms].map(
      (ms) => ms / 3_600_000,
    ),
    [2, 1, 30 * 24, 14 * 24],
  );
  assert.equal(saved.time_til_autostop_notify_ms, 45 * 60_000);
  assert.equal(saved.allow_user_cancel_workspace_jobs, true, 'other settings stay');
});

test('shows the limits of the template next to a schedule', needsBrowser, async (t) => {
  const body = { schedule: 'CRON_TZ=Europe/Berlin 30 7 * * 1-6' };
  assert.equal((await site.server.api('PUT', `/workspaces/${workspace.id}/autostart`, body)).status, 204);
  const { page } = await site.open(t, '/@admin/ledger/settings/schedule');
  await page.getByText('Monday, Tuesday, Wednesday, Thursday, Friday').waitFor();
  await page.getByText('requires a stop in your quiet hours on Saturday, every 2 weeks').waitFor();
  await page.getByText('as the template requires').waitFor();
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-schedule-limits');
  await page.getByRole('link', { name: 'change your quiet hours' }).click();
  await page.getByRole('heading', { name: 'Quiet hours' }).waitFor();
  await page.getByLabel('Start', { exact: true }).fill('03:30');
  await page.getByLabel('Time zone').selectOption('Europe/Berlin');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Your quiet hours were changed.').waitFor();
  await page.getByText('03:30 (Europe/Berlin)').waitFor();
});

test('shows a dormant workspace, when it is deleted, and activates it', needsBrowser, async (t) => {
  const dormant = await site.server.api('PUT', `/workspaces/${workspace.id}/dormant`, { dormant: true });
  assert.equal(dormant.status, 200);
  const { page } = await site.open(t, '/workspaces?filter=dormant:true');
  await page.getByText('Deletion in 2 weeks').filter({ visible: true }).waitFor();
  await keepScreenshots(page, 'workspaces-dormant');
  await page.goto('/@admin/ledger');
  await page.getByText('nobody can start it or connect to it').waitFor();
  await page.getByText('It is deleted on').waitFor();
  await eventually('it is stopped', async () => (await current()).latest_build.status === 'stopped');
  await assertAccessible(page);
  await keepScreenshots(page, 'workspace-dormant');
  await page.getByRole('button', { name: 'Activate' }).first().click();
  await page.getByText('nobody can start it or connect to it').waitFor({ state: 'detached' });
  assert.equal((await current()).dormant_at, null);
});
