import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { buildEnds, commandTemplate, createWorkspace, eventually, makeTemplate } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser } from './browser.ts';
import { useSite } from './site.ts';

const PARAMETERS = `
data "coder_parameter" "region" {
  name         = "region"
  display_name = "Region"
  description  = "Where the machine runs."
  default      = "eu"
  option {
    name  = "Europe"
    value = "eu"
  }
  option {
    name  = "United States"
    value = "us"
  }
}
data "coder_parameter" "tools" {
  name         = "tools"
  display_name = "Tools"
  description  = "What each start installs."
  type         = "list(string)"
  form_type    = "multi-select"
  default      = jsonencode(["git"])
  mutable      = true
  option {
    name  = "Git"
    value = "git"
  }
  option {
    name  = "Docker"
    value = "docker"
  }
}
data "coder_parameter" "repository" {
  name         = "repository"
  display_name = "Repository"
  default      = ""
  mutable      = true
}
`;
const MARK = 'From your last workspace';
const REPOSITORY = 'https://example.com/ledger.git';

const site = useSite(async (server) => {
  const files = { ...commandTemplate('true'), 'parameters.tf': PARAMETERS };
  const service = await makeTemplate(server, 'service', files);
  const classic = await makeTemplate(server, 'classic', files);
  await server.api('PATCH', `/templates/${classic}`, { use_classic_parameter_flow: true });
  for (const [template, name] of [
    [service, 'one'],
    [classic, 'two'],
  ] as const) {
    const made = await createWorkspace(server, template, name, {
      rich_parameter_values: [
        { name: 'region', value: 'us' },
        { name: 'repository', value: REPOSITORY },
      ],
    });
    await buildEnds(server, made.latest_build.id);
  }
});

const top = async (found: Locator) => (await found.boundingBox())!.y;
const field = (page: Page, name: string) => page.locator(`#parameter-${name}`);

for (const template of ['service', 'classic'])
  test(`marks what comes from the last workspace in the form of ${template}`, needsBrowser, async (t) => {
    const { page } = await site.open(t, `/templates/${template}/workspace`);
    const repository = page.getByLabel('Repository');
    await repository.waitFor();
    assert.equal(await repository.inputValue(), REPOSITORY);
    await field(page, 'region').getByText(MARK).waitFor();
    await field(page, 'repository').getByText(MARK).waitFor();
    assert.equal(await page.getByText(MARK).count(), 2, 'the third has its default');
    await repository.fill('https://example.com/other.git');
    await field(page, 'repository').getByText(MARK).waitFor({ state: 'detached' });
    await assertAccessible(page);
    await keepScreenshots(page, `create-${template}`);

    await page.goto(`/templates/${template}/workspace?param.repository=${REPOSITORY}`);
    await field(page, 'region').getByText(MARK).waitFor();
    assert.equal(await field(page, 'repository').getByText(MARK).count(), 0, 'the link gives this one');
  });

test('a description is above the options of a group, and below a field', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/service/workspace');
  for (const [text, option] of [
    ['Where the machine runs.', 'Europe'],
    ['What each start installs.', 'Git'],
  ] as const) {
    const description = page.getByText(text);
    await description.waitFor();
    assert.ok((await top(description)) < (await top(page.getByText(option, { exact: true }))), text);
  }
});

test('chooses an icon of the server for a template, an organization and a group', needsBrowser, async (t) => {
  const group = await site.server.api<{ id: string }>('POST', '/organizations/default/groups', { name: 'painters' });
  assert.equal(group.status, 201);
  const { page, errors } = await site.open(t, '/templates/service/settings');
  const choose = async (label: string) => {
    await page.getByRole('button', { name: 'Choose an icon' }).click();
    await page.getByRole('searchbox', { name: 'Find an icon' }).fill('no such icon');
    await page.getByText('No icon matches.').waitFor();
    await page.getByRole('searchbox', { name: 'Find an icon' }).fill('docker');
    const icons = page.getByRole('list', { name: 'Icons' });
    await icons.getByRole('button', { name: 'Docker', exact: true }).waitFor();
    await assertAccessible(page);
    await keepScreenshots(page, 'icon-picker');
    await icons.getByRole('button', { name: 'Docker', exact: true }).click();
    await icons.waitFor({ state: 'detached' });
    assert.equal(await page.getByLabel(label, { exact: true }).inputValue(), '/icon/docker.svg');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
  };
  await choose('Icon');
  const iconOf = async (path: string, key: string) =>
    (await site.server.api<Record<string, string>>('GET', path)).body[key];
  await eventually('the template has it', async () => {
    return (await iconOf('/organizations/default/templates/service', 'icon')) === '/icon/docker.svg';
  });
  await page.goto('/organizations/coder/settings');
  await choose('Icon');
  await eventually(
    'the organization has it',
    async () => (await iconOf('/organizations/default', 'icon')) === '/icon/docker.svg',
  );
  await page.goto('/organizations/coder/groups/painters/settings');
  await choose('Picture');
  await eventually(
    'the group has it',
    async () => (await iconOf(`/groups/${group.body.id}`, 'avatar_url')) === '/icon/docker.svg',
  );
  // the field still takes an emoji's path
  await page.goto('/templates/service/settings');
  await page.getByLabel('Icon', { exact: true }).fill('/emojis/1f680.png');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await eventually('the template has the emoji', async () => {
    return (await iconOf('/organizations/default/templates/service', 'icon')) === '/emojis/1f680.png';
  });
  assert.deepEqual(errors, []);
});

test('offers to save what was changed, and nothing else', needsBrowser, async (t) => {
  const { page } = await site.open(t, '/templates/service/settings');
  const save = page.getByRole('button', { name: /^(Save|Rename|Deprecate|Apply)/ });
  for (const [path, shown] of [
    ['/templates/service/settings', 'Display name'],
    ['/templates/service/settings/schedule', 'Hours until autostop'],
    ['/organizations/coder/settings', 'Display name'],
    ['/organizations/coder/roles/organization-admin', undefined],
    ['/organizations/coder/idp-sync', 'Name of the claim'],
    ['/deployment/appearance', 'Application name'],
    ['/settings/account', 'Full name'],
    ['/@admin/one/settings', 'Workspace name'],
    ['/@admin/one/settings/parameters', 'Repository'],
    ['/@admin/one/settings/schedule', 'Hours after a start'],
  ] as const) {
    await page.goto(path);
    await (shown ? page.getByLabel(shown) : page.getByRole('heading', { level: 1 })).first().waitFor();
    assert.equal(await save.count(), 0, path);
  }
  await page.goto('/templates/service/settings');
  const name = page.getByLabel('Name (required)');
  await name.fill('');
  await page.getByText('Enter a name.').waitFor();
  assert.equal(await save.isDisabled(), true, 'it says why it cannot');
  await name.fill('service-2');
  assert.equal(await save.isEnabled(), true);
  await page.getByRole('button', { name: 'Discard changes' }).click();
  await save.waitFor({ state: 'detached' });
  assert.equal(await name.inputValue(), 'service');
  // a form with one field would submit with Enter
  await page.goto('/@admin/one/settings/schedule');
  let writes = 0;
  page.on('request', (request) => {
    if (request.method() === 'PUT') writes++;
  });
  await page.getByLabel('Hours after a start').press('Enter');
  await page.getByLabel('Hours after a start').fill('3');
  await save.click();
  await save.waitFor({ state: 'detached' });
  assert.equal(writes, 1);
});

test('shows the pages of settings in one list, next to or above them', needsBrowser, async (t) => {
  for (const width of [1440, 390]) {
    const { page } = await site.open(t, '/@admin/one/settings', { viewport: { width, height: 844 } });
    for (const [path, entry] of [
      ['/@admin/one/settings', 'Parameters'],
      ['/templates/service/settings', 'Variables'],
      ['/settings/account', 'Tokens'],
    ] as const) {
      await page.goto(path);
      const list = page.getByRole('navigation', { name: /settings$/i });
      const link = list.getByRole('link', { name: entry });
      await link.waitFor();
      const box = (await list.boundingBox())!;
      if (width === 1440) assert.ok(box.height > box.width / 3 && box.width < 250, `${path} has a list at the side`);
      else assert.ok(box.height < 60, `${path} has a row above the page`);
      const active = list.getByRole('link', { name: /^(General|Account)$/ });
      // the tabs of the level above are underlined
      assert.doesNotMatch((await active.getAttribute('class'))!, /border-b/, path);
    }
  }
});
