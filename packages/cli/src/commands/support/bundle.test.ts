import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readZip } from '@ropewalk/server/app/evaluate/archive';
import { createTestTemplate, startTestServer, startTestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';
import { shellPattern } from './workspace-files.ts';

test('collects the requested files without secrets', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'bundle-'));
  const server = await startTestServer();
  const dev = await startTestWorkspace(server, 'dev', { agent: { env: { KEY: 'canary-of-the-agent' } } });
  t.after(async () => {
    await dev.stop();
    await server.stop();
    rmSync(dir, { recursive: true });
  });
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const file = join(dir, 'bundle.zip');
  const made = await invoke(['support', 'bundle', 'dev', '-y', '-O', file], env);
  assert.equal(made.code, 0, made.stderr);
  assert.equal(made.stdout, `${file}\n`);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const entries = await readZip(readFileSync(file));
  const all = entries.map(({ path, data }) => `== ${path}\n${Buffer.from(data)}`).join('\n');
  const names = [...all.matchAll(/^== (.*)$/gm)].map(([, name]) => name);
  for (const name of ['deployment/health.json', 'workspace/workspace.json', 'agent/main.json', 'cli/environment.json'])
    assert.ok(names.includes(name), `${name} of ${names}`);
  for (const secret of ['canary-of-the-agent', server.adminToken, dev.token]) assert.ok(!all.includes(secret));
  assert.match(all, /"KEY": "\*\*\*"/);
  const again = await invoke(['support', 'bundle', '-y', '-O', file], env);
  assert.match(again.stderr, /already exists/);
  const unasked = await invoke(['support', 'bundle', '-O', join(dir, 'other.zip')], env);
  assert.equal(unasked.code, 1);
});

test('adds files of the workspace, a template and a list of workspaces, on request', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'bundle-'));
  const server = await startTestServer();
  const dev = await startTestWorkspace(server, 'dev', { env: { PLACE: join(dir, 'a b') } });
  t.after(async () => {
    await dev.stop();
    await server.stop();
    rmSync(dir, { recursive: true });
  });
  const template = await createTestTemplate(server, 'machines');
  await server.api('POST', '/users/me/workspaces', { body: { name: 'other', template_id: template.id } });
  const bytes = Buffer.from([0, 255, 10, 13, 0]);
  mkdirSync(join(dir, 'a b'));
  for (const name of ['one.log', 'two.log', 'three.txt']) writeFileSync(join(dir, 'a b', name), bytes);
  writeFileSync(join(dir, "it's"), 'quoted');
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  let made = 0;
  const bundle = async (...args: string[]) => {
    const file = join(dir, `bundle-${++made}.zip`);
    const { code, stderr } = await invoke(['support', 'bundle', '-y', '-O', file, ...args], env);
    assert.equal(code, 0, stderr);
    const entries = await readZip(readFileSync(file));
    return new Map(entries.map(({ path, data }) => [path, Buffer.from(data)]));
  };
  const json = (files: Map<string, Buffer>, path: string) => JSON.parse(String(files.get(path)));

  const found = ['--workspace-file', '$PLACE/*.log', '--workspace-file', `${dir}/it's`];
  const run = `$(touch ${dir}/ran)`;
  const files = await bundle('dev', ...found, '--workspace-file', `${dir}/${run}`, '--workspace-file', '/none');
  const folder = 'agent/main.workspace_files';
  const paths = [`${dir}/a b/one.log`, `${dir}/a b/two.log`, `${dir}/it's`];
  assert.deepEqual(
    json(files, `${folder}/manifest.json`).files,
    paths.map((path) => ({ path, size: path.endsWith("it's") ? 6 : 5, truncated: false })),
  );
  assert.deepEqual(files.get(`${folder}/files${paths[0]}`), bytes);
  assert.throws(() => statSync(join(dir, 'ran')), /ENOENT/);

  const named = await bundle('--template', 'machines');
  assert.equal(json(named, 'templates/machines/template.json').id, template.id);
  assert.equal(json(named, 'templates/machines/template_version.json').id, template.active_version_id);
  assert.ok((await readZip(named.get('templates/machines/template_file.zip')!)) !== undefined);

  const listed = async (cap: string) =>
    json(await bundle('--workspaces-total-cap', cap), 'deployment/workspaces.json').length;
  assert.equal(await listed('1'), 1);
  assert.equal(await listed('0'), 2);
  for (const [args, message] of [
    [['--workspace-file', '/a'], /--workspace-file requires a workspace/],
    [['dev', '--workspace-file', 'relative/a'], /Invalid --workspace-file "relative\/a": use an absolute path/],
    [['--template', 'none'], /Template "none" not found/],
  ] as const) {
    const failed = await invoke(['support', 'bundle', '-y', '-O', join(dir, 'failed.zip'), ...args], env);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, message);
  }
});

test('a pattern becomes one word of a shell that runs nothing', () => {
  assert.equal(shellPattern('~/a b/*.log'), `"$HOME"'/a b/'*.log`);
  assert.equal(shellPattern('$HOME/$(id)`id`;x'), `"\${HOME}"/'$''(id)\`id\`;x'`);
});
