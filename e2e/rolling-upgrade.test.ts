// Two servers of the release before are replaced one by one while people build, type, forward ports, follow logs and watch
// pages. The agent, the daemon and the command stay those of the release before. Then back, by restoring.
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@ropewalk/server/db/connect';
import { previousCommit, previousExecutable } from '../scripts/release/previous.ts';
import { gates, makeKey, startDaemon } from './daemon-process.ts';
import { type Deployment, type Member, startDeployment } from './deployment.ts';
import {
  buildEnds,
  coder,
  commandTemplate,
  createWorkspace,
  ensureExecutable,
  eventually,
  makeTemplate,
} from './harness.ts';
import { invitePeople, type People, work } from './people.ts';
import { isReady } from './pool.ts';

/** About how long the people work. */
const SECONDS = 60;
/** Between two changes of the servers. */
const PAUSE_MS = 4_000;
const TAGS = { zone: 'outside' };

let deployment: Deployment;
let people: People;
/** The command of the release before. */
let previous: readonly string[];
let backup: string;
const { gate, remove } = gates();

/** Makes a copy of a database that nobody uses. */
async function copyDatabase(from: string, to: string): Promise<void> {
  const url = new URL(deployment.members[0]!.server.databaseUrl!);
  url.pathname = '/postgres';
  const admin = connect(url.href, { max: 1 });
  try {
    await admin.unsafe(`DROP DATABASE IF EXISTS ${to} WITH (FORCE)`);
    await admin.unsafe(`CREATE DATABASE ${to} TEMPLATE ${from}`);
  } finally {
    await admin.end();
  }
}

const nameOf = (url: string) => new URL(url).pathname.slice(1);

async function restart(member: Member): Promise<void> {
  await member.server.restart();
  await eventually('the balancer uses the server', () => member.healthy);
}

// .ci/run sets it for a clone without history, and reports it
const isAbsent = process.env['WITHOUT_PREVIOUS_RELEASE'] === '1';
if (!isAbsent) {
  before(async () => {
    const commit = previousCommit();
    assert.ok(commit, 'This clone has no history. Run `git fetch --unshallow --tags`.');
    previous = [previousExecutable(commit)];
    await ensureExecutable();
    deployment = await startDeployment();
    const first = await deployment.add({ program: previous });
    people = await invitePeople(deployment, previous);
    await first.server.terminate();
    const database = nameOf(first.server.databaseUrl!);
    backup = `${database}_backup`;
    await copyDatabase(database, backup);
    await restart(first);
    await deployment.add({ program: previous });
  });
  after(async () => {
    people?.end();
    if (backup) await copyDatabase('template1', backup).catch(() => {});
    await deployment?.stop();
    remove();
  });

  test('servers of the release before are replaced one by one, and nothing is lost, doubled or ended', async (t) => {
    const { members, site, url } = deployment;
    const [first, second] = members as [Member, Member];
    const daemon = await startDaemon(first.server, {
      name: 'outside',
      program: previous,
      env: { CODER_URL: url, CODER_PROVISIONER_DAEMON_KEY: await makeKey(first.server, 'outside', TAGS) },
    });
    t.after(() => daemon.kill());
    const outside = gate('outside');
    const template = await makeTemplate(site, 'outside', commandTemplate(outside.command), { tags: TAGS });

    const { violations, changes, summary } = await work(
      people,
      SECONDS,
      async (report) => {
        const { latest_build } = await createWorkspace(site, template, 'outside');
        await eventually('the apply has begun', () => outside.begun() > 0);
        report('migrate');
        const { code, stderr } = await coder(['server', 'migrate'], {
          env: { ...first.server.env, CODER_PG_CONNECTION_URL: first.server.databaseUrl },
        });
        assert.equal(code, 0, stderr);
        await delay(PAUSE_MS);
        report('an old server starts on the new schema');
        await first.server.terminate();
        await restart(first);
        for (const old of [first, second]) {
          await delay(PAUSE_MS);
          report('add a new server');
          await deployment.add();
          report('it is in use');
          await delay(PAUSE_MS);
          report('end an old server');
          await old.server.terminate();
          report('it has ended');
        }
        await delay(PAUSE_MS);
        outside.open();
        const build = await buildEnds(site, latest_build.id);
        assert.equal(build.status, 'running', JSON.stringify(build.job));
      },
      log,
    );
    assert.deepEqual(violations, [], `${changes}; ${summary}`);
    const { body: replicas } = await site.api<{ version: string }[]>('GET', '/replicas');
    assert.equal(replicas.length, 2);
    const info = await site.api<{ version: string }>('GET', '/buildinfo');
    const own = await coder(['version', '--output', 'json'], { env: first.server.env });
    assert.equal(info.body.version, (JSON.parse(own.stdout) as { version: string }).version);
  });

  test('the release before works again on a restored database', async () => {
    const { members, site } = deployment;
    for (const member of members.slice(2)) await member.server.terminate();
    const first = members[0]!;
    await copyDatabase(backup, nameOf(first.server.databaseUrl!));
    await restart(first);
    const { body } = await site.api<{ workspaces: { id: string; name: string }[] }>('GET', '/workspaces');
    assert.deepEqual(
      body.workspaces.map(({ name }) => name),
      ['dev'],
    );
    const { id } = body.workspaces[0]!;
    await isReady(site, id);
    const session = people.run('ssh', 'dev', '--', 'echo works');
    assert.equal(await session.ended, 0, session.err());
    assert.equal(session.out().trim(), 'works');
    const stop = await site.api<{ id: string }>('POST', `/workspaces/${id}/builds`, { transition: 'stop' });
    const build = await buildEnds(site, stop.body.id);
    assert.equal(build.status, 'stopped', JSON.stringify(build.job));
  });
}

/** Shows how it goes while it goes, in this file. */
function log(text: string): void {
  const file = process.env['UPGRADE_TEST_LOG'];
  if (file) appendFileSync(file, `${text}\n`);
}
