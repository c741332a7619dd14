// Opens code-server in a browser by host and by path; see README.md.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../dashboard/browser.ts';
import {
  buildEnds,
  coder,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  PERSON,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
  type Workspace,
} from '../harness.ts';
import { localExample } from '../local.ts';

const VERSION = '4.139.1';
const NODE = '24';
const root = dirname(dirname(import.meta.dirname));

/** Installs code-server if it is missing, and returns the command that runs it. */
function install(dir: string): string {
  const runtime = join(dir, `node_modules/node-linux-${process.arch}`);
  const entry = join(dir, 'node_modules/code-server/out/node/entry.js');
  const npm = (...args: string[]) => {
    const env = { ...process.env, npm_config_nodedir: runtime, PATH: `${runtime}/bin:${process.env['PATH']}` };
    const done = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...args], { cwd: dir, env, stdio: 'inherit' });
    assert.equal(done.status, 0, `npm install ${args.join(' ')}`);
  };
  if (!existsSync(join(dir, 'node_modules/code-server/lib/vscode/node_modules'))) {
    mkdirSync(dir, { recursive: true });
    if (!existsSync(join(dir, 'package.json'))) writeFileSync(join(dir, 'package.json'), '{"private":true}');
    npm(`node-linux-${process.arch}@${NODE}`);
    npm(`code-server@${VERSION}`);
  }
  return `${runtime}/bin/node ${entry}`;
}

/** The example template with code-server, as a template author writes it. */
function template(command: string, port: number): Record<string, string> {
  const files = localExample();
  const more = readFileSync(join(import.meta.dirname, 'main.tf'), 'utf8');
  return {
    'main.tf': files['main.tf']!,
    'code-server.tf': more.replaceAll('COMMAND', command).replaceAll('PORT', String(port)),
  };
}

async function signedIn(browser: Browser, url: string): Promise<Page> {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  await page.goto(url);
  await page.waitForURL((at) => at.pathname === '/login');
  await page.getByLabel('Email').fill(PERSON.email);
  await page.getByLabel('Password', { exact: true }).fill(PERSON.password);
  await page.keyboard.press('Enter');
  await page.waitForURL((at) => at.host === new URL(url).host && at.pathname !== '/login');
  return page;
}

/** Opens a file by its name, types into it, saves it. */
async function edit(page: Page, file: string, text: string): Promise<void> {
  await page.locator('.monaco-workbench .explorer-viewlet').waitFor({ timeout: 90_000 });
  const label = page.locator('.explorer-viewlet .label-name', { hasText: file });
  await label.dblclick({ timeout: 60_000 });
  await page.locator('.editor-instance .view-lines').waitFor({ timeout: 30_000 });
  await page.waitForFunction(`document.activeElement?.closest('.editor-instance') !== null`, undefined, {
    timeout: 30_000,
  });
  await page.keyboard.type(text);
  await page.keyboard.press('Control+s');
}

async function ready(server: ServerProcess, id: string): Promise<void> {
  await eventually(
    'code-server is healthy',
    async () => {
      const { body } = await server.api<Workspace>('GET', `/workspaces/${id}`);
      const agents = body.latest_build.resources.flatMap((resource) => resource.agents ?? []) as unknown as {
        status: string;
        apps: { health: string }[];
      }[];
      return agents[0]?.status === 'connected' && agents[0].apps.every(({ health }) => health === 'healthy');
    },
    90_000,
  );
}

const command = install(process.argv[2] ?? join(tmpdir(), 'platform-code-server'));
await ensureExecutable();
const server = await startCoderServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.localhost' } });
const browser = await startBrowser({ isComplete: true });
try {
  await firstUser(server);
  const made = await createWorkspace(
    server,
    await makeTemplate(server, 'code', template(command, await freePort())),
    'dev',
  );
  const build = await buildEnds(server, made.latest_build.id);
  assert.equal(build.status, 'running', server.log().slice(-2_000));
  await ready(server, made.id);
  const ways = {
    'by host': `http://code--main--dev--admin.apps.localhost:${new URL(server.url).port}/`,
    'by path': `${server.url}/@admin/dev.main/apps/code-path/`,
  };
  for (const [way, url] of Object.entries(ways)) {
    const page = await signedIn(browser, url);
    const text = `opened ${way} `;
    await edit(page, 'hello.txt', text);
    const env = signedInEnv(server);
    await eventually(
      `what was typed ${way} is saved`,
      async () => (await coder(['ssh', 'dev', '--', 'cat', 'project/hello.txt'], { env })).stdout.includes(text),
      30_000,
    );
    console.log(`code-server ${way}: opened, typed into, saved`);
    if (way === 'by host') {
      mkdirSync(join(root, 'docs/images'), { recursive: true });
      writeFileSync(join(root, 'docs/images/code-server.png'), await page.screenshot());
    }
    await page.context().close();
  }
} finally {
  await browser.close();
  await server.stop();
}
process.exit(0);
