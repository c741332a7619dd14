import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, makeTemplate, PERSON, tokenOf } from '../harness.ts';
import { assertAccessible, follow, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const SCRATCH = readFileSync(join(import.meta.dirname, '../../examples/scratch/main.tf'), 'utf8');
const PARAMETER = `
data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "CPU cores"
  type         = "number"
  default      = "4"
}
`;

let name: string;
let template: string;
const site = useSite(async (server) => {
  template = await makeTemplate(server, 'payments', {
    'main.tf': SCRATCH + PARAMETER,
    'README.md': '# For the payments team\n\nWith **PostgreSQL** next to it.\n',
  });
  const { body } = await server.api<{ name: string }[]>('GET', `/templates/${template}/versions`);
  name = body[0]!.name;
});

test('a member reads a template, but cannot change it', { ...needsBrowser, timeout: 60_000 }, async () => {
  const { body: organizations } = await site.server.api<{ id: string }[]>('GET', '/organizations');
  const member = { username: 'member', email: 'member@example.com', password: PERSON.password };
  const made = await site.server.api('POST', '/users', { ...member, organization_ids: [organizations[0]!.id] });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const token = await tokenOf(site.server, member);
  const { page, context } = await openAs(site.browser, site.server, token);
  try {
    await page.goto('/templates');
    await page.getByRole('link', { name: 'payments' }).first().click();
    await page.getByRole('heading', { name: 'For the payments team' }).waitFor();
    assert.deepEqual(await page.getByRole('navigation', { name: 'Template' }).getByRole('link').allInnerTexts(), [
      'Overview',
      'Resources',
      'Versions',
      'Embed',
    ]);
    await page.goto('/templates/payments/settings');
    await page.getByText('You may not change this template').waitFor();
    await page.goto('/templates/new');
    await page.getByText('You may not create templates').waitFor();
  } finally {
    await context.close();
  }
});

test('every page is accessible in both themes and fits a phone', { ...needsBrowser, timeout: 120_000 }, async () => {
  const pages: [path: string, shown: string, shot: string][] = [
    ['/templates', 'payments', 'templates'],
    ['/templates/new', 'Drop a .tar', 'template-new'],
    ['/starter-templates', 'Kubernetes', 'starter-templates'],
    ['/starter-templates/docker', 'Use this template', 'starter-template'],
    ['/templates/payments', 'For the payments team', 'template'],
    ['/templates/payments/files', 'coder_agent', 'template-files'],
    ['/templates/payments/resources', 'machine', 'template-resources'],
    ['/templates/payments/versions', 'Ready', 'template-versions'],
    [`/templates/payments/versions/${name}`, 'This is the only version', 'template-version'],
    ['/templates/payments/embed', 'Fill in CPU cores', 'template-embed'],
    ['/templates/payments/insights', 'Nobody used this template', 'template-insights'],
    ['/templates/payments/settings', 'Require the active version', 'template-settings'],
    ['/templates/payments/settings/schedule', 'Hours until autostop', 'template-schedule'],
    ['/templates/payments/settings/variables', 'This template has no variables', 'template-variables'],
    [`/templates/payments/versions/${name}/edit`, 'coder_agent', 'template-editor'],
  ];
  const { page, context, errors } = await openAs(site.browser, site.server, site.server.token);
  try {
    await page.goto('/settings/account');
    for (const [path, shown, shot] of pages) {
      await follow(page, path);
      await page.getByText(shown).first().waitFor();
      await assertAccessible(page);
      await keepScreenshots(page, shot);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.getByText(shown).first().waitFor();
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      assert.ok(Number(overflow) <= 0, `${path} scrolls sideways by ${overflow} px at 390 px`);
      await keepScreenshots(page, `${shot}-phone`);
      await page.setViewportSize({ width: 1440, height: 900 });
    }
    assert.deepEqual(errors, []);
  } finally {
    await context.close();
  }
});

test('the settings decide who answers CORS, and which modules builds use', {
  ...needsBrowser,
  timeout: 60_000,
}, async () => {
  const { server } = site;
  const { page, context } = await openAs(site.browser, server, server.token);
  try {
    await page.goto('/templates/payments/settings');
    const cors = page.getByLabel('Who can read answers of apps across origins');
    assert.equal(await cors.inputValue(), 'simple');
    await cors.selectOption('Pages that the app itself permits');
    await page.getByLabel('Fetch modules for every build').check();
    await cors.scrollIntoViewIfNeeded();
    await assertAccessible(page);
    await keepScreenshots(page, 'template-settings-workspaces');
    await page.setViewportSize({ width: 390, height: 844 });
    await cors.scrollIntoViewIfNeeded();
    await keepScreenshots(page, 'template-settings-workspaces-phone');
    const save = page.locator('form').filter({ has: cors }).getByRole('button', { name: 'Save' });
    await save.click();
    await eventually('the settings are saved', async () => {
      const { body } = await server.api<Record<string, unknown>>('GET', `/templates/${template}`);
      return body['cors_behavior'] === 'passthru' && body['disable_module_cache'] === true;
    });
  } finally {
    await context.close();
  }
});

test('the insights chart which values of parameters people choose', { ...needsBrowser, timeout: 60_000 }, async () => {
  const { server } = site;
  for (const [workspace, value] of [
    ['small', '4'],
    ['large', '16'],
    ['huge', '16'],
  ]) {
    const made = await server.api('POST', '/users/me/workspaces', {
      name: workspace,
      template_id: template,
      rich_parameter_values: [{ name: 'cpu', value }],
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  }
  const { page, context } = await openAs(site.browser, server, server.token);
  try {
    await page.goto('/templates/payments/insights');
    const chart = page.getByRole('region', { name: 'CPU cores' });
    await chart.waitFor();
    assert.deepEqual(await chart.getByRole('listitem').allInnerTexts(), ['16\n2 · 67%', '4\n1 · 33%']);
    await assertAccessible(page);
    await keepScreenshots(page, 'template-insights-parameters');
  } finally {
    await context.close();
  }
});
