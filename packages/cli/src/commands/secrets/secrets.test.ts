import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { UserSecret } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let token: string;
const dir = mkdtempSync(join(tmpdir(), 'cli-secrets-'));
before(async () => {
  server = await startTestServer();
  ({ token } = await insertPerson(server, 'ann'));
});
after(async () => {
  rmSync(dir, { recursive: true });
  await server.stop();
});

const run = (args: string, stdin = '') =>
  invoke(['secret', ...args.split(' ')], { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, stdin);
async function coder(args: string, stdin?: string): Promise<{ stdout: string; stderr: string }> {
  const done = await run(args, stdin);
  assert.equal(done.code, 0, done.stderr);
  assert.ok(!`${done.stdout}${done.stderr}`.includes('hunter2'));
  return done;
}
async function fails(args: string, why: RegExp, stdin?: string): Promise<void> {
  const { code, stderr } = await run(args, stdin);
  assert.ok(code !== 0, args);
  assert.match(stderr, why);
  assert.ok(!stderr.includes('hunter2'));
}
const values = async () =>
  Object.fromEntries(
    (await server.services.sql`SELECT name, value FROM user_secrets`).map(({ name, value }) => [name, value]),
  );
const show = async (name: string) => {
  const [secret] = JSON.parse((await coder(`list ${name} -o json`)).stdout) as UserSecret[];
  return [secret!.env_name, secret!.file_path, secret!.enabled, secret!.description];
};

test('creates, lists, changes and deletes secrets', async () => {
  assert.match((await coder('list')).stderr, /No secrets found/);
  assert.equal((await coder('list -o json')).stdout, '[]\n');
  assert.equal((await coder('create key --env KEY --description words', 'hunter2')).stdout, 'Created secret key.\n');
  await coder('create by-flag --file ~/.key --value hunter2');
  const warned = await coder('create kept --enabled=false', 'hunter2\n');
  assert.match(warned.stderr, /ends with a line break/);
  assert.deepEqual(await values(), { key: 'hunter2', 'by-flag': 'hunter2', kept: 'hunter2\n' });
  const { stdout } = await coder('ls');
  assert.match(stdout, /^NAME +CREATED +UPDATED +ENV +FILE +ENABLED +DESCRIPTION *\n/);
  assert.match(stdout, /\nkey +\w+( ago)? +\w+( ago)? +KEY +true +words/);
  assert.deepEqual(await show('kept'), ['', '', false, '']);
  await coder('update kept --env KEPT --enabled');
  assert.deepEqual(await show('kept'), ['KEPT', '', true, '']);
  await coder('update key --description=', 'hunter2 again');
  assert.deepEqual([(await values())['key'], await show('key')], ['hunter2 again', ['KEY', '', true, '']]);
  assert.equal((await coder('disable key')).stdout, 'Disabled secret key.\n');
  assert.equal((await coder('enable key')).stdout, 'Enabled secret key.\n');
  await fails('delete key', /--yes/);
  assert.match((await coder('rm key -y')).stdout, /^Deleted secret key at \w{3} \d\d /);
  await fails('list key', /not found/);
});

test('rejects values from nowhere and from two places, and what the server rejects', async () => {
  await fails('create a --env A', /standard input, or set --value/);
  await fails('create a --env A --value hunter2', /both --value and standard input/, 'hunter2');
  await fails('create a --env PATH', /reserved/, 'hunter2');
  await fails('create a', /env_name/, 'hunter2');
  await fails('create a --env A', /24576 bytes/, 'hunter2'.repeat(4_000));
  await fails('update absent', /At least one field|not found/);
});

test('imports files after checking them here', async () => {
  const file = (name: string, text: string) => {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  const done = await coder(`import ${file('x.env', 'ONE=hunter2\nmy-token=hunter2')}`);
  assert.equal(done.stdout, 'Imported 2 secrets.\n');
  assert.match(done.stderr, /"my-token"/);
  await coder(`import ${file('x.yml', 'TWO: hunter2')}`);
  assert.equal((await coder('import - --input-format json', '{"THREE":"hunter2"}')).stdout, 'Imported 1 secret.\n');
  await coder(`import ${file('.env', 'FOUR=hunter2')}`);
  await fails(`import ${file('x.json', '{"ONE":"hunter2","FIVE":"hunter2"}')}`, /name already in use/);
  await fails(`import ${file('id_rsa', 'hunter2')}`, /--input-format/);
  const requests = await server.services.sql`SELECT count(*)::integer AS n FROM audit_logs`;
  await fails(`import ${join(dir, 'id_rsa')} --input-format env`, /Line 1 is not NAME=VALUE/);
  await fails(`import ${file('bad.yaml', '"a/b": hunter2')}`, /"a\/b"/);
  await fails(`import ${join(dir, 'absent.env')}`, /Could not read/);
  assert.deepEqual(await server.services.sql`SELECT count(*)::integer AS n FROM audit_logs`, requests);
});
