import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { WorkspaceTransition } from '@platform/wire/proto/provisioner';
import { eventually } from '../testing/eventually.ts';
import { type Harness, harness, tarOf } from '../testing/harness.ts';

let h: Harness;
afterEach(() => h.close());

async function slowJob(): Promise<{ job: Parameters<Harness['server']['post']>[0]; begun: string; gate: string }> {
  const begun = join(h.dir, 'begun');
  const gate = join(h.dir, 'gate');
  const archive = await tarOf({
    'main.tf': `resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done" }
}`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START };
  return {
    job: { templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } },
    begun,
    gate,
  };
}

test('it connects as the published daemon does, by key, PSK, session or installation secret', async () => {
  h = await harness({ ours: false });
  h.start({ name: 'by-key', tags: { zone: 'a=b', scope: 'organization' } });
  h.start({ name: 'by-psk', auth: { psk: 'p' } });
  h.start({ name: 'by-session', auth: { sessionToken: 't' }, organization: 'acme' });
  h.start({ name: 'by-secret', auth: { installationSecret: 's' } });
  await eventually(() => h.server.dials.length >= 4, 'four connections');
  const dial = (name: string) => h.server.dials.find(({ url }) => url.searchParams.get('name') === name)!;
  const key = dial('by-key');
  assert.equal(key.url.pathname, '/api/v2/organizations/default/provisionerdaemons/serve');
  assert.equal(key.url.searchParams.get('version'), '1.8');
  assert.deepEqual(key.url.searchParams.getAll('provisioner'), ['terraform']);
  assert.deepEqual(key.url.searchParams.getAll('tag'), ['zone=a=b', 'scope=organization']);
  assert.equal(key.headers['coder-provisioner-daemon-key'], 'k'.repeat(43));
  assert.equal(key.headers['x-coder-build-version'], 'v0.0.0-test');
  assert.equal(dial('by-psk').headers['coder-provisioner-daemon-psk'], 'p');
  assert.equal(dial('by-session').headers['cookie'], 'coder_session_token=t');
  assert.equal(dial('by-session').url.pathname, '/api/v2/organizations/acme/provisionerdaemons/serve');
  assert.equal(dial('by-secret').headers['platform-installation-secret'], 's');
});

test('with a published server: heartbeats, a cancel in their replies, no epoch and no resume', async () => {
  h = await harness({ ours: false });
  h.start();
  const { job, begun, gate } = await slowJob();
  const first = h.server.post(job);
  await eventually(() => existsSync(begun), 'the apply');
  h.server.cut();
  await eventually(() => h.server.updates.filter(({ logs }) => logs.length === 0).length >= 2, 'heartbeats');
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(first)).completed);
  assert.deepEqual(new Set(h.server.epochs), new Set([undefined]));
  assert.deepEqual([h.server.resumed.length, h.server.checkpoints.length], [0, 0]);

  const second = await slowJob();
  await rm(begun);
  await rm(gate);
  const id = h.server.post(second.job);
  await eventually(() => existsSync(begun), 'the second apply');
  h.server.canceled.add(id);
  const { failed } = await h.server.verdict(id, 5_000);
  assert.match(failed?.error ?? '', /^terraform apply: /);
});

test('a 403 stops it for good, any other answer does not', async () => {
  h = await harness();
  h.server.status = 500;
  h.start({ name: 'patient' });
  await eventually(() => h.server.dials.length >= 3, 'more tries');
  h.server.status = 403;
  const daemon = h.start({ name: 'refused' });
  const refusals = () => h.server.dials.filter(({ url }) => url.searchParams.get('name') === 'refused').length;
  await eventually(() => refusals() === 1, 'the refusal');
  h.server.status = 101;
  const connected = h.start({ name: 'later' });
  await eventually(() => h.server.sessions.size >= 1, 'a connection of another daemon');
  assert.equal(refusals(), 1);
  assert.ok(daemon.awayMs() > 0);
  connected.drain();
  daemon.drain();
  await Promise.all([connected.done, daemon.done]);
});

test('a verdict that the server can not take is followed by a failure with its reason', async () => {
  h = await harness();
  h.start();
  h.server.refuseComplete = 'disk full';
  const { job, gate } = await slowJob();
  await writeFile(gate, '');
  const { failed } = await h.server.verdict(h.server.post(job));
  assert.equal(failed?.error, 'internal provisionerserver error: disk full');
});
