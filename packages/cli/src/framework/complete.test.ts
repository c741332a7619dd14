import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { createTestTemplate, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
let env: NodeJS.ProcessEnv;
before(async () => {
  server = await startTestServer();
  const template = await createTestTemplate(server, 'docker', {});
  for (const name of ['dev', 'docs', 'web']) {
    await server.api('POST', '/users/me/workspaces', { body: { name, template_id: template.id } });
  }
  env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
});
after(() => server.stop());

/** The offered words after `coder`, of which the last one is incomplete. */
async function offered(words: string[], more: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const { code, stdout, stderr } = await invoke(words, { ...env, COMPLETION_MODE: '1', ...more });
  assert.equal(code, 0);
  assert.equal(stderr, '');
  return stdout.split('\n').slice(0, -1);
}

test('offers commands, flags and their values', async () => {
  assert.deepEqual(await offered(['templ']), ['templates']);
  assert.deepEqual(await offered(['templates', 'versions', 'a']), ['archive']);
  assert.deepEqual(await offered(['templates', '-O', 'default', 'versions', 'a']), ['archive']);
  assert.deepEqual(await offered(['list', '--ou']), ['--output']);
  assert.deepEqual(await offered(['list', '--output', 'j']), ['json']);
  assert.deepEqual(await offered(['list', '-o', 'j']), ['json']);
  assert.deepEqual(await offered(['list', '--output=j']), ['--output=json']);
  assert.deepEqual(await offered(['list', '--output', '=', 'j']), ['json'], 'as bash splits it');
  assert.ok((await offered(['list', '--output', '='])).includes('json'));
  assert.deepEqual(await offered(['server', '--http-a']), ['--http-address']);
  assert.ok(!(await offered(['ssh', '--'])).includes('--debug-http'), 'hidden');
});

test('offers names of the server where an argument or flag takes one', async () => {
  assert.deepEqual(await offered(['ssh', 'd']), ['dev', 'docs']);
  assert.deepEqual(await offered(['stop', '--yes', '']), ['dev', 'docs', 'web']);
  assert.deepEqual(await offered(['stop', '""']), ['dev', 'docs', 'web'], 'as PowerShell writes an empty word');
  assert.deepEqual(await offered(['create', 'new', '--template', 'do']), ['docker']);
  assert.deepEqual(await offered(['templates', 'archive', '']), ['docker']);
  assert.deepEqual(await offered(['users', 'show', '']), ['admin']);
  assert.deepEqual(await offered(['autoupdate', 'dev', 'a']), ['always']);
  assert.deepEqual(await offered(['autoupdate', 'dev', 'always', '']), []);
});

test('offers nothing without a server, and shows no error', async () => {
  assert.deepEqual(await offered(['ssh', ''], { CODER_URL: '', CODER_SESSION_TOKEN: '' }), []);
  assert.deepEqual(await offered(['ssh', ''], { CODER_SESSION_TOKEN: 'wrong' }), []);
  assert.deepEqual(await offered(['no-such-command', '']), []);
});

test('bash offers the words', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-completion-'));
  try {
    const main = join(import.meta.dirname, '../main.ts');
    writeFileSync(join(dir, 'coder'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
    writeFileSync(join(dir, 'script'), (await invoke(['completion', '-p', '-s', 'bash'])).stdout);
    const line = 'coder ssh d';
    const typed = `. ${dir}/script; COMP_WORDS=(${line}); COMP_CWORD=2; _coder; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', typed], {
      env: { ...process.env, ...env, PATH: `${dir}:${process.env['PATH']}` },
      timeout: 20_000,
    });
    assert.equal(stdout, 'dev\ndocs\n');
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
