// Upgrades with the data of earlier releases. Each file in e2e/upgrade has the rows that a release left in its database after
// a person pushed the template `local` and created the workspaces `dev` and `gone` from it, both running. docs/recipes/add-a-release.md
// says how to add a release.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { connect } from '@ropewalk/server/db/connect';
import { migrate } from '@ropewalk/server/db/migrate';
import { migrations } from '@ropewalk/server/db/migrations/index';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { buildEnds, eventually, PERSON, type ServerProcess, startCoderServer, tokenOf } from './harness.ts';

// the server gives builds their own uids only as root
const skip = process.getuid?.() === 0 ? false : 'needs root';

interface Release {
  release: string;
  /** The number of its last migration. */
  schema: number;
  /** The hash of its config directory, which is a part of paths in the state of builds. */
  place: string;
  /** Where its workspaces have their homes: one user has all of them, or each owner has a user. */
  homes: 'one uid' | 'own uids';
  /** With own uids: that of the workspaces' owner, and the first of the installation's. */
  uid?: number;
  firstUid?: number;
  tables: Record<string, object[]>;
}

const FOLDER = join(import.meta.dirname, 'upgrade');
const RELEASES = readdirSync(FOLDER).map((name) => join(FOLDER, name));
const OLD_UID = 64_101;
const NAMES = ['dev', 'gone'];

/** Replaces the database of a stopped server with that of the release. */
async function restore(url: string, { schema, tables }: Release): Promise<void> {
  const sql = connect(url, { max: 1 });
  try {
    await sql.unsafe('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    await migrate(
      sql,
      silentLogger,
      migrations.filter(({ version }) => version <= schema),
    );
    // rows refer to each other in any order
    await sql.unsafe("SET session_replication_role = 'replica'");
    for (const [table, rows] of Object.entries(tables)) {
      await sql.unsafe(`DELETE FROM ${table}`);
      const columns = await sql<{ name: string }[]>`
        SELECT quote_ident(column_name) AS name FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name = ${table} AND is_generated = 'NEVER'`;
      const list = columns.map(({ name }) => name).join(', ');
      const from = `json_populate_recordset(null::${table}, $1::text::json)`;
      await sql.unsafe(`INSERT INTO ${table} (${list}) SELECT ${list} FROM ${from}`, [JSON.stringify(rows)]);
    }
  } finally {
    await sql.end();
  }
}

/** The release's data, with paths and uids of this installation. States are in the database as hexadecimal text. */
function read(path: string, hash: string, configDir: string): Release {
  const hex = (text: string) => Buffer.from(text).toString('hex');
  let text = readFileSync(path, 'utf8');
  const replace = (from: string, to: string) => {
    text = text.replaceAll(from, to).replaceAll(hex(from), hex(to));
  };
  const { place, uid, firstUid } = JSON.parse(text) as Release;
  replace(place, hash);
  if (uid !== undefined) {
    const { first } = JSON.parse(readFileSync(join(configDir, 'uids.json'), 'utf8')) as { first: number };
    replace(`${uid}`, `${first + uid - firstUid!}`);
  }
  return JSON.parse(text) as Release;
}

/** Where the release keeps the homes of the owner, and the uid that they belong to. */
function homesOf(base: string, { homes, uid, tables }: Release): { folder: string; uid: number } {
  if (homes === 'one uid') return { folder: join(base, 'home/workspaces/admin'), uid: OLD_UID };
  // the record of the uid
  const [workspace] = tables['workspaces'] as { template_id: string; owner_id: string }[];
  const record = { key: `${workspace!.template_id} ${workspace!.owner_id}` };
  mkdirSync(join(base, 'uids'), { recursive: true, mode: 0o700 });
  writeFileSync(join(base, 'uids', `${uid}`), JSON.stringify(record), { mode: 0o600 });
  return { folder: join(base, 'homes', `${uid}`, 'workspaces/admin'), uid: uid! };
}

/** A home with data and a running process in place of the agent, as the release leaves them. */
function makeHome(t: TestContext, home: string, uid: number): number {
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'notes.txt'), 'precious');
  let path = join(home, 'notes.txt');
  for (let above = 0; above < 5; above++, path = dirname(path)) chownSync(path, uid, uid);
  const agent = spawn('/bin/sleep', ['600'], {
    uid,
    gid: uid,
    cwd: home,
    env: { HOME: home },
    detached: true,
    stdio: 'ignore',
  });
  t.after(() => agent.kill('SIGKILL'));
  writeFileSync(join(home, '.agent.pid'), `${agent.pid}\n`);
  chownSync(join(home, '.agent.pid'), uid, uid);
  return agent.pid!;
}

async function build(server: ServerProcess, workspace: string, transition: string): Promise<string> {
  const { body: found } = await server.api<{ id: string }>('GET', `/users/me/workspace/${workspace}`);
  const made = await server.api<{ id: string }>('POST', `/workspaces/${found.id}/builds`, { transition });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const ended = await buildEnds(server, made.body.id);
  return `${ended.status} ${ended.job.error ?? ''}`.trim();
}

const runs = (pid: number) => {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
};

for (const path of RELEASES) {
  const name = (JSON.parse(readFileSync(path, 'utf8')) as Release).release;
  test(`running workspaces of ${name} stop, start and are deleted with their processes and homes`, {
    skip,
  }, async (t) => {
    const server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '1' } });
    t.after(() => server.stop());
    await server.terminate();
    const hash = directoryHash(server.configDir);
    const base = join('/var/lib/coder/provisioners', hash);
    const data = read(path, hash, server.configDir);
    await restore(server.databaseUrl!, data);
    const { folder, uid } = homesOf(base, data);
    const homes = Object.fromEntries(NAMES.map((each) => [each, join(folder, each)]));
    const agents = Object.fromEntries(NAMES.map((each) => [each, makeHome(t, homes[each]!, uid)]));

    await server.restart();
    server.token = await tokenOf(server, PERSON);

    assert.equal(await build(server, 'dev', 'stop'), 'stopped');
    await eventually('its process has ended', () => !runs(agents['dev']!));
    assert.ok(runs(agents['gone']!), 'that of the other workspace goes on');

    assert.equal(await build(server, 'dev', 'start'), 'running');
    const notes = join(homes['dev']!, 'notes.txt');
    assert.equal(readFileSync(notes, 'utf8'), 'precious');
    const pid = await eventually('a new agent runs', () => {
      const text =
        existsSync(join(homes['dev']!, '.agent.pid')) && readFileSync(join(homes['dev']!, '.agent.pid'), 'utf8');
      return text ? Number(text) : undefined;
    });
    assert.ok(runs(pid));
    assert.equal(statSync(notes).uid, statSync(`/proc/${pid}`).uid, 'the home belongs to its user');

    assert.equal(await build(server, 'gone', 'delete'), 'deleted');
    await eventually('its process has ended', () => !runs(agents['gone']!));
    assert.equal(await build(server, 'dev', 'delete'), 'deleted');
    for (const each of NAMES) assert.ok(!existsSync(homes[each]!), each);
    assert.deepEqual(
      readdirSync(join(base, 'homes')).flatMap((uid) => {
        const owner = join(base, 'homes', uid, 'workspaces/admin');
        return existsSync(owner) ? readdirSync(owner) : [];
      }),
      [],
    );
  });
}
