import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readZip } from '@ropewalk/server/app/evaluate/archive';
import { startTestServer, startTestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

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
