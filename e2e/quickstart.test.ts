import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { starterOf } from '@ropewalk/rules/starters';
import {
  buildEnds,
  coderOutput,
  createWorkspace,
  eventually,
  freePort,
  type ServerProcess,
  startSignedInServer,
  type Workspace,
} from './harness.ts';
import { isReady, makePool, poolIsReady } from './pool.ts';

// The starter template that people try first: what its README promises, with its parameters, presets, app and pool.

let server: ServerProcess;
let dir: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'quickstart-'));
  server = await startSignedInServer();
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd: dir });

/** What the app of a workspace answers, once it is healthy. */
async function website(workspace: string, path = ''): Promise<string> {
  let text = '';
  await eventually(
    `the website of ${workspace} answers`,
    async () => {
      const answer = await fetch(`${server.url}/@admin/${workspace}.main/apps/website/${path}`, {
        headers: { cookie: `coder_session_token=${server.token}` },
      });
      text = await answer.text();
      return answer.status === 200;
    },
    60_000,
  );
  return text;
}

/** Where the app of a workspace listens on this machine. */
async function addressOf(workspace: string): Promise<string> {
  const { body } = await server.api<Workspace>('GET', `/users/me/workspace/${workspace}`);
  const agents = body.latest_build.resources.flatMap(({ agents: found = [] }) => found);
  return (agents[0] as unknown as { apps: { url: string }[] }).apps[0]!.url;
}

test('comes first, starts within seconds, and shows a website that the person changes', {
  timeout: 180_000,
}, async () => {
  assert.match(await run('templates', 'init'), /^quickstart +/);
  assert.ok(existsSync(join(dir, 'quickstart/website.sh.tftpl')));
  await run('templates', 'push', 'quickstart', '-d', './quickstart', '-y');
  await run('create', 'dev', '--template', 'quickstart', '--preset', 'Website', '-y');
  assert.match(await website('dev'), /<h1>Hello<\/h1>/);
  await run('ssh', 'dev', '--', 'echo changed > website/index.html');
  assert.equal(await website('dev'), 'changed\n');
  await run('create', 'bare', '--template', 'quickstart', '--preset', 'Empty folder', '-y');
  await run('ssh', 'bare', '--', 'echo text > website/notes.txt');
  assert.match(await website('bare'), /href="(\.\/)?notes.txt"/);
  // nothing of a stopped workspace runs on, and nothing of a deleted one stays
  const home = (await run('ssh', 'dev', '--', 'pwd')).trim().split('\n').at(-1)!;
  const url = await addressOf('dev');
  assert.equal(await (await fetch(url)).text(), 'changed\n');
  await run('stop', 'dev', '-y');
  await assert.rejects(fetch(url), 'nothing listens');
  await run('start', 'dev', '-y');
  assert.equal(await website('dev'), 'changed\n');
  await run('delete', 'dev', '-y');
  assert.ok(!existsSync(home), `${home} is gone`);
});

test('its pool gives a person a workspace that keeps running', { timeout: 180_000 }, async () => {
  const { files } = starterOf('quickstart')!;
  const main = files['main.tf']!.replace(/instances = 0/, 'instances = 1');
  const pool = await makePool(server, 'pool', { ...files, 'main.tf': main });
  const [prebuilt] = await poolIsReady(server, 1, 'pool');
  const mine = await createWorkspace(server, pool.templateId, 'mine', { template_version_preset_id: pool.presetId });
  assert.equal(mine.id, prebuilt!.id);
  const build = await buildEnds(server, mine.latest_build.id);
  assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
  await isReady(server, mine.id);
  assert.match(await website('mine'), /<h1>Hello<\/h1>/);
});

test('its website needs no Python', { timeout: 30_000 }, async (t) => {
  const folder = join(dir, 'files');
  mkdirSync(join(folder, 'sub'), { recursive: true });
  writeFileSync(join(folder, 'a <b>.txt'), 'text');
  writeFileSync(join(folder, 'sub/index.html'), 'page');
  const port = await freePort();
  const served = spawn('perl', ['-e', starterOf('quickstart')!.files['website.pl']!, String(port)], { cwd: folder });
  t.after(() => served.kill());
  const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
  await eventually('it listens', async () => (await get('/').catch(() => undefined))?.status === 200);
  assert.match(await (await get('/')).text(), /href="\.\/a%20%3Cb%3E\.txt">a &#60;b&#62;\.txt</);
  assert.equal(await (await get('/a%20%3Cb%3E.txt')).text(), 'text');
  assert.equal(await (await get('/sub')).text(), 'page');
  for (const path of ['/none', '/%2e%2e/quickstart/main.tf', '/sub/..%2f..%2fquickstart/main.tf'])
    assert.equal((await get(path)).status, 404, path);
});
