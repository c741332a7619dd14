import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { afterEach, beforeEach, test } from 'node:test';
import { abortable } from '@ropewalk/kit/abortable';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { type Harness, harness, tarOf } from '../testing/harness.ts';
import { runBuiltinDaemons } from './builtin.ts';

let h: Harness;
beforeEach(async () => {
  h = await harness();
});
afterEach(() => h.close());

async function job(): Promise<Parameters<Harness['server']['post']>[0]> {
  const metadata = { workspaceTransition: WorkspaceTransition.START };
  // with a module, so that Terraform needs an init
  const main = 'resource "terraform_data" "a" {}\nmodule "m" {\n  source = "./m"\n}\n';
  const archive = await tarOf({ 'main.tf': main, 'm/main.tf': '' });
  return { templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } };
}

test('built-in daemons share one prepared version and one runner, and drain on the first stop', async () => {
  const builtin = await runBuiltinDaemons({ ...h.options, count: 3, namePrefix: 'host' });
  await eventually('three connections', () => h.server.sessions.size === 3);
  const names = h.server.dials.map(({ url }) => url.searchParams.get('name')).sort();
  assert.deepEqual(names, ['host-0', 'host-1', 'host-2']);
  const one = await job();
  const ids = Array.from({ length: 6 }, () => h.server.post(one));
  for (const id of ids) assert.ok((await h.server.verdict(id)).completed);
  const inits = h.server.logs.filter(({ output }) => /has been successfully initialized/.test(output));
  assert.equal(inits.length, 1);
  assert.equal((await readdir(`${h.dir}/cache/tf/versions`)).length, 1);
  builtin.stop();
  await builtin.done;
});

test('built-in daemons end if their server ends while they start', async (t) => {
  const parent = t.mock.property(process, 'ppid', process.ppid);
  const starting = runBuiltinDaemons({ ...h.options, count: 1, namePrefix: 'host' });
  // as when the system gives an orphan another parent
  parent.mock.mockImplementation(1);
  const builtin = await starting;
  t.after(() => builtin.stop('abandon'));
  await abortable(builtin.done, AbortSignal.timeout(60_000));
});

test('built-in daemons end without their server, and the next ones adopt the running builds', async () => {
  let alive = true;
  const builtin = await runBuiltinDaemons({
    ...h.options,
    count: 2,
    namePrefix: 'host',
    parentAlive: () => alive,
  });
  await eventually('two connections', () => h.server.sessions.size === 2);
  alive = false;
  await builtin.done;
});
