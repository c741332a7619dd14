import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildEnds, commandTemplate, createWorkspace, makeTemplate } from '../harness.ts';
import { needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

/** Upstream's addresses, which people have in bookmarks, READMEs and extensions. */
let version: string;
const site = useSite(async (server) => {
  const id = await makeTemplate(server, 'plain', commandTemplate('true'));
  const workspace = await createWorkspace(server, id, 'dev');
  await buildEnds(server, workspace.latest_build.id);
  const versions = await server.api<{ name: string }[]>('GET', `/templates/${id}/versions`);
  version = versions.body[0]!.name;
});

const NO_PAGE = 'There is no page at this address';
const TEMPLATE_PAGES = ['', 'docs', 'files', 'resources', 'versions', 'embed', 'insights', 'workspace'];
const TEMPLATE_SETTINGS = ['settings', 'settings/variables', 'settings/schedule', 'settings/permissions'];

test('each of upstream’s addresses opens a page', { ...needsBrowser, timeout: 180_000 }, async () => {
  const { context, page, errors } = await openAs(site.browser, site.server, site.server.token);
  const below = [...TEMPLATE_PAGES, ...TEMPLATE_SETTINGS, `versions/${version}`, `versions/${version}/edit`];
  const addresses = [
    '/audit?filter=action%3Acreate',
    '/connectionlog?filter=type%3Assh',
    '/reset-password',
    '/reset-password/change?otp=x&email=a%40example.com',
    '/settings/notifications',
    '/workspaces?filter=owner%3Ame',
    '/@admin/dev',
    '/admin/dev',
    '/@admin/dev/builds/1',
    '/@admin/dev/settings',
    '/@admin/dev/settings/parameters',
    '/@admin/dev/settings/schedule',
    '/tasks',
    '/tasks/admin/dev',
    '/templates',
    '/templates/new',
    '/starter-templates',
    '/templates/new/builder',
    '/starter-templates/local',
    ...['plain', 'default/plain'].flatMap((name) => below.map((part) => `/templates/${name}/${part}`)),
    '/templates/plain/workspace?mode=manual&name=other&param.size=2',
    '/organizations/default',
    ...['groups', 'groups/create', 'groups/Everyone', 'groups/Everyone/settings', 'roles', 'roles/create'].map(
      (part) => `/organizations/default/${part}`,
    ),
    '/organizations/default/provisioners',
    '/organizations/default/provisioner-jobs?status=pending',
    '/organizations/default/provisioner-keys',
    '/organizations/default/idp-sync?tab=roles',
    '/deployment/overview',
    '/deployment/users?filter=admin',
    '/deployment/idp-org-sync',
    '/deployment/workspace-proxies',
    '/health/database',
    '/settings/account',
    '/install',
    '/icons',
    '/cli-auth',
    '/login/device?state=x',
  ];
  for (const address of addresses) {
    await page.goto(address);
    await page.getByRole('heading').first().waitFor();
    assert.equal(await page.getByText(NO_PAGE).count(), 0, address);
    assert.equal(await page.getByText('This page has crashed').count(), 0, address);
  }
  assert.deepEqual(errors, []);
  await context.close();
});

test('an address without a page says so, with the navigation around it', needsBrowser, async () => {
  const { context, page } = await openAs(site.browser, site.server, site.server.token);
  for (const address of ['/nowhere', '/templates/plain/nothing/at/all', '/organizations/default/nothing']) {
    await page.goto(address);
    await page.getByText(NO_PAGE).waitFor();
    await page.getByRole('navigation', { name: 'Main' }).waitFor();
  }
  await context.close();
});
