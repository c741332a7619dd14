import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { buildEnds, createWorkspace, freePort, makeTemplate, type Workspace } from '../harness.ts';
import { localExample } from '../local.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { useSite } from './site.ts';

const WEB_SERVER = `
  const web = require('node:http').createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end('<h1>Chat with the coding agent</h1>');
  });
  web.listen(0, '127.0.0.1', () => console.log(web.address().port));`;

const task = (port: number) => `
data "coder_parameter" "prompt" {
  name    = "AI Prompt"
  type    = "string"
  default = ""
  mutable = true
}
resource "coder_app" "chat" {
  agent_id     = coder_agent.main.id
  slug         = "chat"
  display_name = "Chat"
  url          = "http://localhost:${port}"
  subdomain    = true
}
resource "coder_ai_task" "task" {
  sidebar_app {
    id = coder_app.chat.id
  }
}
`;

// Every host below localhost is this machine, for browsers. Cookies reach an app in a frame only if its host and that of
// the page belong together.
const port = await freePort();
const origin = `http://apps.localhost:${port}`;

/** The coding agent's chat, which runs in the workspace: on this machine. */
let web: ChildProcess;
before(async () => {
  if (needsBrowser.skip) return;
  web = spawn(process.execPath, ['-e', WEB_SERVER], { stdio: ['ignore', 'pipe', 'inherit'] });
});
after(() => void web?.kill());

const site = useSite(
  async (server) => {
    const chat = Number(await once(web.stdout!, 'data'));
    const { 'main.tf': main, ...others } = localExample();
    const reachable = `replace(coder_agent.main.init_script, "apps.localhost", "127.0.0.1")`;
    const local = { ...others, 'main.tf': main!.replace('coder_agent.main.init_script', reachable) };
    await makeTemplate(server, 'coding', { ...local, 'task.tf': task(chat) });
    const plain = await makeTemplate(server, 'plain', localExample());
    const { latest_build: build } = await createWorkspace(server, plain, 'no-task');
    await buildEnds(server, build.id);
  },
  { port, env: { CODER_ACCESS_URL: origin, CODER_WILDCARD_ACCESS_URL: '*.apps.localhost' } },
);

/** Reports as a coding agent does: with the token of its workspace's agent. */
async function report(workspace: Workspace, body: object): Promise<void> {
  const { body: state } = await site.server.api<{ resources: { type: string; instances: object[] }[] }>(
    'GET',
    `/workspacebuilds/${workspace.latest_build.id}/state`,
  );
  const agent = state.resources.find(({ type }) => type === 'coder_agent')!;
  const { attributes } = agent.instances[0] as { attributes: { token: string } };
  const answer = await fetch(`${site.server.url}/api/v2/workspaceagents/me/app-status`, {
    method: 'PATCH',
    headers: { 'Coder-Session-Token': attributes.token, 'content-type': 'application/json' },
    body: JSON.stringify({ app_slug: 'chat', ...body }),
  });
  assert.equal(answer.status, 200, await answer.text());
}

test('runs a task from its prompt, shows the app of its agent and what that reports', needsBrowser, async (t) => {
  const { context, page, errors } = await openAs(site.browser, site.server, site.server.token, { baseURL: origin });
  t.after(() => context.close());
  await context.addCookies([{ name: 'coder_session_token', value: site.server.token, url: origin, httpOnly: true }]);
  await page.goto('/workspaces');
  page.setDefaultTimeout(60_000);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Tasks' }).click();
  const run = page.getByRole('button', { name: 'Run task' });
  await page.getByText('There are no tasks yet').waitFor();
  await page.getByRole('textbox', { name: 'What should be done?' }).fill('Update the licence headers');
  await run.click();
  await page.waitForURL(/\/tasks\/admin\/[a-z-]+$/);
  await page.getByText('Update the licence headers').waitFor();
  const name = new URL(page.url()).pathname.split('/').at(-1)!;
  await page.frameLocator('iframe').getByRole('heading', { name: 'Chat with the coding agent' }).waitFor();
  await page.getByText('The coding agent has reported nothing yet.').waitFor();

  const { body: workspace } = await site.server.api<Workspace>('GET', `/users/me/workspace/${name}`);
  await report(workspace, { state: 'working', message: 'Reading the files' });
  await page.getByText('Reading the files').waitFor();
  await report(workspace, {
    state: 'complete',
    message: 'Opened a pull request',
    uri: 'https://git.example.com/pull/1',
  });
  await page.getByRole('link', { name: 'https://git.example.com/pull/1' }).waitFor();
  await keepScreenshots(page, 'task');
  await assertAccessible(page);

  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Tasks' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Update the licence headers' });
  await row.getByText('Complete').waitFor();
  assert.equal(await page.getByText('no-task').count(), 0);
  await keepScreenshots(page, 'tasks');
  await assertAccessible(page);
  await row.getByRole('link', { name: 'Update the licence headers' }).click();

  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('The workspace is stopped').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByLabel(`Type ${name} to confirm`).fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL('**/tasks');
  assert.deepEqual(errors, []);
});

test('prompts are for those who may read the workspace', needsBrowser, async () => {
  const { body: templates } = await site.server.api<{ id: string }[]>('GET', '/templates?q=has-ai-task:true');
  assert.equal(templates.length, 1);
  const { body: made } = await site.server.api<Workspace>('POST', '/users/me/workspaces', {
    name: 'secret',
    template_id: templates[0]!.id,
    rich_parameter_values: [{ name: 'AI Prompt', value: 'Find the leak' }],
  });
  const build = made.latest_build.id;
  const person = { username: 'ann', email: 'ann@example.com', password: 'correct horse battery' };
  await site.server.api('POST', '/users', person);
  const prompts = (token: string, ids: string) =>
    fetch(`${site.server.url}/api/experimental/aitasks/prompts?build_ids=${ids}`, {
      headers: { 'Coder-Session-Token': token },
    });
  const signedIn = await fetch(`${site.server.url}/api/v2/users/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: person.email, password: person.password }),
  });
  const { session_token: ann } = (await signedIn.json()) as { session_token: string };
  assert.deepEqual(await (await prompts(site.server.token, build)).json(), { prompts: { [build]: 'Find the leak' } });
  assert.deepEqual(await (await prompts(ann, build)).json(), { prompts: {} });
  assert.equal((await prompts(site.server.token, 'all')).status, 400);
  await buildEnds(site.server, build);
  const end = await site.server.api<{ id: string }>('POST', `/workspaces/${made.id}/builds`, { transition: 'delete' });
  await buildEnds(site.server, end.body.id);
});
