import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
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

test("connects as upstream's daemon does, with a key, PSK, session token or installation secret", async () => {
  h = await harness({ ours: false });
  h.start({ name: 'by-key', tags: { zone: 'a=b', scope: 'organization' } });
  h.start({ name: 'by-psk', auth: { psk: 'p' } });
  h.start({ name: 'by-session', auth: { sessionToken: 't' }, organization: 'acme' });
  h.start({ name: 'by-secret', auth: { installationSecret: 's' } });
  await eventually('four connections', () => h.server.dials.length >= 4);
  const dial = (name: string) => h.server.dials.find(({ url }) => url.searchParams.get('name') === name)!;
  const key = dial('by-key');
  assert.equal(key.url.pathname, '/api/v2/organizations/default/provisionerdaemons/serve');
  assert.equal(key.url.searchParams.get('version'), '1.8');
  assert.deepEqual(key.url.searchParams.getAll('provisioner'), ['terraform']);
  assert.deepEqual(key.url.searchParams.getAll('tag'), ['zone=a=b', 'scope=organization']);
  assert.equal(key.headers['coder-provisioner-daemon-key'], 'k'.repeat(43));
  assert.equal(key.headers['x-coder-build-version'], 'v0.0.0-test');
  assert.equal(dial('by-psk').headers['coder-provisioner-daemon-psk'], 'p');
  // not a cookie: with --host-prefix-cookie, servers ignore those without the prefix
  assert.equal(dial('by-session').headers['coder-session-token'], 't');
  assert.equal(dial('by-session').url.pathname, '/api/v2/organizations/acme/provisionerdaemons/serve');
  assert.equal(dial('by-secret').headers['platform-installation-secret'], 's');
});

test('with an upstream server: heartbeats, a cancel in their replies, no epoch and no resume', async () => {
  h = await harness({ ours: false });
  h.start();
  const { job, begun, gate } = await slowJob();
  const first = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  h.server.cut();
  await eventually('heartbeats', () => h.server.updates.filter(({ logs }) => logs.length === 0).length >= 2);
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(first)).completed);
  assert.deepEqual(new Set(h.server.epochs), new Set([undefined]));
  assert.deepEqual([h.server.resumed.length, h.server.checkpoints.length], [0, 0]);

  const second = await slowJob();
  await rm(begun);
  await rm(gate);
  const id = h.server.post(second.job);
  await eventually('the second apply', () => existsSync(begun));
  h.server.canceled.add(id);
  const { failed } = await h.server.verdict(id, 5_000);
  assert.match(failed?.error ?? '', /^terraform apply: /);
});

for (const ours of [false, true]) {
  test(`repeats a call on the next connection if its connection breaks (${ours ? 'ours' : 'upstream'})`, async () => {
    h = await harness({ ours });
    h.start();
    h.server.holdVerdicts = true;
    const id = h.server.post({
      templateSourceArchive: await tarOf({ 'main.tf': 'resource "terraform_data" "x" {}' }),
      type: { case: 'workspaceBuild', value: { metadata: { workspaceTransition: WorkspaceTransition.START } } },
    });
    await eventually('the verdict is on its way', () => h.server.heldVerdicts === 1);
    h.server.holdVerdicts = false;
    h.server.cut();
    assert.ok((await h.server.verdict(id)).completed);
  });
}

test('a 403 ends the daemon with the reason; after any other status it logs once and tries again', async () => {
  h = await harness();
  h.server.status = 401;
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  const patient = h.start({ name: 'patient', log });
  const dials = (name: string) => h.server.dials.filter(({ url }) => url.searchParams.get('name') === name).length;
  await eventually('more tries', () => dials('patient') >= 4);
  const warned = () => lines.filter((line) => /\[warn\] cannot connect to the server/.test(line));
  assert.equal(warned().length, 1, 'four equal statuses cause one line');
  assert.match(warned()[0]!, /no \(status 401\)/);
  h.server.status = 500;
  await eventually('the other reason', () => warned().length === 2);
  patient.abandon();
  await patient.done;
  h.server.status = 403;
  const daemon = h.start({ name: 'refused' });
  await assert.rejects(daemon.done, /The server rejected this daemon: no \(status 403\)/);
  assert.equal(dials('refused'), 1);
  h.server.status = 404;
  const lost = h.start({ name: 'lost', organization: 'nowhere' });
  await assert.rejects(lost.done, /Organization "nowhere" not found: no \(status 404\)/);
});

test('rejected during a job: the daemon ends, the run continues and the session remains for the next daemon', async () => {
  h = await harness();
  const first = h.start();
  const { job, begun, gate } = await slowJob();
  h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  h.server.status = 403;
  h.server.cut();
  await assert.rejects(first.done, /rejected this daemon/);
  assert.deepEqual([h.server.completed.length, h.server.failed.length], [0, 0]);
  h.server.status = 101;
  await writeFile(gate, '');
  const [session] = await readdir(h.options.workDir);
  assert.ok(session, 'the session remains');
});

test('sends a failure with the reason after a verdict that the server rejects', async () => {
  h = await harness();
  h.start();
  h.server.refuseComplete = 'disk full';
  const { job, gate } = await slowJob();
  await writeFile(gate, '');
  const { failed } = await h.server.verdict(h.server.post(job));
  assert.equal(failed?.error, 'internal provisionerserver error: disk full');
});
