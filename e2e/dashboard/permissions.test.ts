import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Organization, Template } from '@ropewalk/contract';
import type { Page } from 'playwright-core';
import { commandTemplate, eventually, makeTemplate, PERSON, type ServerProcess, tokenOf } from '../harness.ts';
import { assertAccessible, follow, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const PEOPLE = [
  ['ann', 'Ann Adams'],
  ['ben', 'Ben Brown'],
  ['cleo', 'Cleo with a really long name that does not fit in one line of a phone'],
] as const;

/** More than the budget of a developer. */
const COST = `
resource "coder_metadata" "machine" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.machine[0].id
  daily_cost  = 30
}
`;

const CANNOT_CREATE = 'You cannot create workspaces from this template';

let ann: string;

/** An account in the default organization, and its session. */
async function addPerson(server: ServerProcess, username: string, name: string): Promise<string> {
  const { body } = await server.api<{ organization_ids: string[] }>('GET', '/users/me');
  const email = `${username}@example.com`;
  const account = { username, name, email, password: PERSON.password, organization_ids: body.organization_ids };
  const made = await server.api('POST', '/users', account);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return tokenOf(server, account);
}

const site = useSite(async (server) => {
  const tokens = [];
  for (const [username, name] of PEOPLE) tokens.push(await addPerson(server, username, name));
  ann = tokens[0]!;
  await makeTemplate(server, 'payments', { 'main.tf': `${commandTemplate('true')['main.tf']}${COST}` });
});

test('an administrator makes a group, and gives it the only permission on a template', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/organizations/default/groups');
  await page.getByText('All members of the organization').waitFor();
  await page.getByRole('link', { name: 'Create group' }).click();
  await page.getByLabel('Name', { exact: true }).fill('no good');
  await page.getByLabel('Display name').fill('Developers');
  await page.getByLabel('Quota allowance').fill('15');
  await page.getByRole('button', { name: 'Create group' }).click();
  await page.getByText('use letters, digits and single hyphens').waitFor();
  await page.getByLabel('Name', { exact: true }).fill('devs');
  await keepScreenshots(page, 'group-create');
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Create group' }).click();
  await page.getByRole('heading', { name: 'Developers' }).waitFor();

  await page.getByRole('button', { name: 'Add members' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('searchbox').fill('an');
  await dialog.getByRole('button', { name: 'Add ann' }).click();
  await dialog.getByRole('searchbox').fill('');
  await dialog.getByRole('button', { name: 'Add cleo' }).click();
  await keepScreenshots(page, 'group-add');
  await assertAccessible(page);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('2 members').waitFor();
  await keepScreenshots(page, 'group');
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Remove cleo' }).click();
  await page.getByText('1 member ·').waitFor();

  await follow(page, '/templates/default/payments/settings/permissions');
  await page.getByText('All members of the organization can use this template').waitFor();
  await page.getByRole('button', { name: 'Add people' }).click();
  await dialog.getByRole('searchbox').fill('dev');
  await dialog.getByRole('button', { name: 'Add Developers' }).click();
  await dialog.getByRole('searchbox').fill('ben');
  await dialog.getByRole('button', { name: 'Add Ben Brown' }).click();
  await keepScreenshots(page, 'template-permissions-add');
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Remove Everyone' }).click();
  await page.getByText('All members of the organization can use this template').waitFor({ state: 'detached' });
  await page.getByRole('combobox', { name: 'Permission of Ben Brown' }).click();
  await page.getByRole('option', { name: 'Admin' }).click();
  await keepScreenshots(page, 'template-permissions');
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
  await keepScreenshots(page, 'template-permissions-phone');
  const template = await site.server.api<{ id: string }>('GET', '/organizations/default/templates/payments');
  const acl = await eventually('the template has an administrator', async () => {
    const path = `/templates/${template.body.id}/acl`;
    const { body } = await site.server.api<{
      group: { name: string; role: string }[];
      users: { role: string }[];
    }>('GET', path);
    return body.users[0]?.role === 'admin' && body;
  });
  assert.deepEqual(
    acl.group.map(({ name, role }) => [name, role]),
    [['devs', 'use']],
  );
  assert.equal(acl.users.length, 1);

  await page.setViewportSize({ width: 1440, height: 900 });
  await follow(page, '/organizations/default/groups/devs/settings');
  await page.getByLabel('Quota allowance').fill('20');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('allowance of 20 a day').waitFor();
  assert.deepEqual(errors, []);
});

test('a member of the group sees the template and the budget, but does not manage groups', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates', { token: ann });
  await page.getByRole('link', { name: 'payments' }).first().waitFor();
  for (const path of ['/workspaces', '/templates/default/payments/workspace']) {
    await follow(page, path);
    await page.getByText('0 of 20 credits a day').waitFor();
    await keepScreenshots(page, `budget${path.replaceAll('/', '-')}`);
    await assertAccessible(page);
  }
  await page.getByRole('button', { name: 'Create workspace' }).click();
  await page.getByText('This build costs 30 credits a day. Other workspaces use 0 of 20 credits.').first().waitFor();
  await keepScreenshots(page, 'over-budget');
  await follow(page, '/templates/default/payments/settings/permissions');
  await page.getByText('You may not change this template').waitFor();
  await follow(page, '/organizations/default/groups');
  await page.getByText('Developers').waitFor();
  const navigation = page.getByRole('navigation', { name: 'Organization' });
  assert.deepEqual(await navigation.getByRole('link').allInnerTexts(), ['Members']);
  await follow(page, '/organizations/default/groups/devs');
  await page.getByText('ann@example.com').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Add members' }).count(), 0);
});

test('an administrator makes a custom role in the matrix, and gives it to a member', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/organizations/default/roles');
  await page.getByText('No custom roles').waitFor();
  await keepScreenshots(page, 'roles');
  await assertAccessible(page);
  await page.getByRole('link', { name: 'Create role' }).click();
  await page.getByLabel('Name', { exact: true }).fill('janitor');
  await page.getByLabel('Display name').fill('Janitor');
  const workspaces = page.getByRole('group', { name: 'Workspaces', exact: true });
  await workspaces.getByLabel('Read').check();
  await workspaces.getByLabel('Stop').check();
  await page.getByRole('group', { name: 'Audit log' }).getByLabel('Audit log').click();
  await page.getByText('4 granted').waitFor();
  await keepScreenshots(page, 'role-create');
  await assertAccessible(page);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
  await keepScreenshots(page, 'role-create-phone');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('button', { name: 'Create role' }).click();
  await page.getByRole('link', { name: 'Janitor' }).click();
  await page.getByRole('group', { name: 'Audit log' }).getByLabel('Create').uncheck();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('3 permissions').waitFor();

  await follow(page, '/organizations/default');
  await page.getByRole('button', { name: 'Actions for ben' }).click();
  await page.getByRole('menuitem', { name: 'Change roles' }).click();
  await page.getByRole('dialog').getByLabel('Janitor').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('table', { name: 'Members' }).getByText('Janitor').waitFor();

  await follow(page, '/organizations/default/roles/organization-admin');
  await page.getByText('Built-in roles cannot be changed').waitFor();
  assert.equal(await workspaces.getByLabel('Open shells').isChecked(), false);
  assert.equal(await workspaces.getByLabel('Update').isDisabled(), true);
  await keepScreenshots(page, 'role-built-in');
  await assertAccessible(page);

  await follow(page, '/organizations/default/roles/janitor');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill('janitor');
  await page.getByRole('button', { name: 'Delete role' }).click();
  await page.getByText('No custom roles').waitFor();
  assert.deepEqual(errors, []);
});

test('an administrator takes a default role from all members, and gives it back', needsBrowser, async (t) => {
  const { page, errors } = await site.open(t, '/organizations/default/settings');
  const section = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Default roles' }) });
  const access = section.getByLabel('Organization Workspace Access');
  await access.waitFor();
  assert.equal(await access.isChecked(), true);
  assert.equal(await section.getByRole('button', { name: 'Save' }).count(), 0, 'nothing to save');
  await access.uncheck();
  await section.getByLabel('Organization Auditor').check();
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
    await keepScreenshots(page, `default-roles-${width}`);
  }
  await assertAccessible(page);
  await section.getByRole('button', { name: 'Discard changes' }).click();
  assert.deepEqual([await access.isChecked(), await section.getByRole('button').count()], [true, 0]);

  await access.uncheck();
  await section.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The default roles were changed.').first().waitFor();
  const rolesOf = async () => {
    const { body } = await site.server.api<Organization>('GET', '/organizations/default');
    return body.default_org_member_roles;
  };
  assert.deepEqual(await rolesOf(), []);
  const member = await site.open(t, '/templates/default/payments/workspace', { token: ann });
  await member.page.getByRole('heading', { name: CANNOT_CREATE }).waitFor();

  await access.check();
  await section.getByRole('button', { name: 'Save' }).click();
  await eventually('the role is back', async () => (await rolesOf()).includes('organization-workspace-access'));
  await member.page.getByRole('button', { name: 'Create workspace' }).waitFor();
  assert.deepEqual(errors, []);
});

/** Opens a page in the window of a person and keeps how it looks on a screen and on a phone. */
async function lookAt(page: Page, path: string, text: string): Promise<void> {
  await follow(page, path);
  await page.getByText(text).first().waitFor();
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
    await keepScreenshots(page, `no-creation${path.replaceAll('/', '-')}-${width}`);
  }
  await assertAccessible(page);
}

const setRoles = async (username: string, ...roles: string[]) => {
  const { status } = await site.server.api('PUT', `/organizations/default/members/${username}/roles`, { roles });
  assert.equal(status, 200);
};

test('a person who may not create workspaces reads why, until the role is removed', needsBrowser, async (t) => {
  await makeTemplate(site.server, 'open', commandTemplate('true'));
  const token = await addPerson(site.server, 'dora', 'Dora Dunn');
  await setRoles('dora', 'organization-workspace-creation-ban');
  const { page, errors } = await site.open(t, '/templates', { token });
  const buttons = page.getByRole('link', { name: /^(Create (a )?|New )workspace$/ });
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'open', exact: true }) });
  for (const [path, text] of [
    ['/templates', 'View only'],
    ['/templates/default/open/docs', CANNOT_CREATE],
    ['/templates/default/open/workspace', CANNOT_CREATE],
    ['/templates/default/open/workspace?mode=auto&name=mine', CANNOT_CREATE],
    ['/workspaces', 'You have no workspaces, and cannot create any'],
  ] as const) {
    await lookAt(page, path, text);
    assert.equal(await buttons.count(), 0, path);
    assert.equal(await page.getByRole('button', { name: 'Create workspace' }).count(), 0, path);
  }
  await follow(page, '/templates');
  await row.getByText('View only').waitFor();
  await setRoles('dora');
  await row.getByRole('link', { name: 'Create workspace' }).click();
  await page.getByRole('button', { name: 'Create workspace' }).waitFor();
  assert.deepEqual(errors, []);
});

test('an auditor creates workspaces only from the templates that list them', needsBrowser, async (t) => {
  const { server } = site;
  await makeTemplate(server, 'listed', commandTemplate('true'));
  await makeTemplate(server, 'unlisted', commandTemplate('true'));
  const { body } = await server.api<Template>('GET', '/organizations/default/templates/unlisted');
  const acl = { group_perms: { [body.organization_id]: '' } };
  assert.equal((await server.api('PATCH', `/templates/${body.id}/acl`, acl)).status, 200);
  const token = await addPerson(server, 'edda', 'Edda East');
  await setRoles('edda', 'organization-auditor');
  const { page, errors } = await site.open(t, '/templates', { token });
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
  await row('unlisted').getByText('View only').waitFor();
  await row('listed').getByRole('link', { name: 'Create workspace' }).waitFor();
  await keepScreenshots(page, 'some-creation-templates');
  for (const path of ['/templates/default/unlisted/docs', '/templates/default/unlisted/workspace'])
    await lookAt(page, path, 'You may read the template, but not use it.');
  assert.deepEqual(errors, []);
});
