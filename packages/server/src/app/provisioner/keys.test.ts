import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { Organization, ProvisionerKey, ProvisionerKeyDaemons } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { BUILT_IN_KEY_ID, PSK_KEY_ID, USER_AUTH_KEY_ID } from '../../db/queries/daemons.ts';
import { acquireJob } from '../../db/queries/job-queue.ts';
import { insertDaemon } from '../job/testing/daemons.ts';

let server: TestServer;
let logged = '';
const write = (line: string) => {
  logged += `${line}\n`;
};
before(async () => {
  server = await startTestServer({ log: createLogger({ level: 'debug', sinks: [{ format: 'human', write }] }) });
});
after(() => server.stop());

const KEYS = '/organizations/default/provisionerkeys';
const UNTAGGED = { scope: 'organization', owner: '' };

async function create(name: string, tags?: Record<string, string>, path = KEYS): Promise<string> {
  const { status, body } = await server.api<{ key: string }>('POST', path, { body: { name, ...(tags && { tags }) } });
  assert.equal(status, 201, JSON.stringify(body));
  return body.key;
}
const list = async (path = KEYS) => (await server.api<ProvisionerKey[]>('GET', path)).body;
const named = async (name: string) => (await list()).find((key) => key.name === name)!;

function preflight(headers: Record<string, string>, path = 'anything', token: string | null = null) {
  return server.api<ProvisionerKey>('GET', `/provisionerkeys/${path}`, { token, headers });
}

function daemonOf(key: { id: string; organization: string }, name: string, tags: Record<string, string> = UNTAGGED) {
  return insertDaemon(server, name, tags, {
    ...{ organization_id: key.organization, key_id: key.id, credential: `key:${key.id}`, version: 'v1.0.0' },
  });
}

/** Sends a daemon's request without an upgrade. A valid credential gets the answer that this route is a WebSocket. */
async function join(key: string): Promise<{ status: number; message: string }> {
  const { status, body } = await server.api<{ message: string }>(
    'GET',
    '/organizations/default/provisionerdaemons/serve?provisioner=terraform&version=1.8&name=joined',
    { token: null, headers: { 'Coder-Provisioner-Daemon-Key': key } },
  );
  return { status, message: body.message };
}

test('shows a key once, stores its hash, lists, accepts and deletes it', async () => {
  const secret = await create('Frankfurt', { site: 'fra' });
  assert.match(secret, /^[0-9A-Za-z]{43}$/);
  await create('second');
  const keys = await list();
  assert.deepEqual(
    keys.map(({ name, tags }) => [name, tags]),
    [
      ['frankfurt', { site: 'fra' }],
      ['second', {}],
    ],
  );
  assert.ok(!JSON.stringify(keys).includes(secret));
  const { sql } = server.services;
  const [row] = await sql<{ hashed_secret: Buffer; text: string }[]>`
    SELECT hashed_secret, row_to_json(k)::text AS text FROM provisioner_keys k WHERE name = 'frankfurt'`;
  assert.ok(row!.hashed_secret.equals(createHash('sha256').update(secret).digest()));
  assert.ok(!row!.text.includes(secret));

  assert.deepEqual((await preflight({ 'Coder-Provisioner-Daemon-Key': secret })).body, keys[0]);
  assert.match((await join(secret)).message, /WebSocket/);
  const [daemon] = await sql<{ key_id: string; tags: object }[]>`
    SELECT key_id, tags FROM provisioner_daemons WHERE name = 'joined'`;
  assert.deepEqual(daemon, { key_id: keys[0]!.id, tags: { ...UNTAGGED, site: 'fra' } });

  assert.equal((await server.api('DELETE', `${KEYS}/FRANKFURT`)).status, 204);
  assert.equal((await server.api('DELETE', `${KEYS}/frankfurt`)).status, 404);
  assert.deepEqual(
    (await list()).map(({ name }) => name),
    ['second'],
  );
  assert.equal((await preflight({ 'Coder-Provisioner-Daemon-Key': secret })).status, 401);
  assert.equal((await join(secret)).status, 401);

  const rows =
    await sql`SELECT action, resource_target, status_code, user_id IS NOT NULL AS known, additional_fields::text AS text
    FROM audit_logs WHERE resource_type = 'provisioner_key' AND resource_id = ${keys[0]!.id} ORDER BY time`;
  assert.deepEqual(
    rows.map(({ action, resource_target, status_code, known }) => [action, resource_target, status_code, known]),
    [
      ['create', 'frankfurt', 201, true],
      ['delete', 'frankfurt', 204, true],
    ],
  );
  assert.ok(!JSON.stringify(rows).includes(secret));
});

test('requires a name that is short, free and not reserved', async () => {
  const refused = async (body: object, status: number) => {
    const answer = await server.api<{ validations: { field: string }[] }>('POST', KEYS, { body });
    assert.equal(answer.status, status, JSON.stringify(body));
    return answer.body.validations.map(({ field }) => field);
  };
  for (const name of ['', 'x'.repeat(65), 'é'.repeat(33), 'built-in', 'User-Auth', 'PSK', 'a\0b']) {
    assert.deepEqual(await refused({ name }, 400), ['name'], name);
  }
  assert.deepEqual(await refused({}, 400), ['name']);
  assert.deepEqual(await refused({ name: 'nul', tags: { a: 'b\0' } }, 400), ['tags']);
  assert.deepEqual(await refused({ name: 'nul', tags: { 'a\0': 'b' } }, 400), ['tags']);
  assert.equal((await server.api('POST', KEYS, { body: { name: 'nul', tags: { a: 1 } } })).status, 400);
  await create('é'.repeat(32));
  await create('Taken');
  assert.deepEqual(await refused({ name: 'tAKEN' }, 409), ['name']);
  // Go's empty map
  assert.equal((await server.api('POST', KEYS, { body: { name: 'no-map', tags: null } })).status, 201);
  for (const name of ['built-in', 'USER-auth', 'psk']) {
    assert.equal((await server.api('DELETE', `${KEYS}/${name}`)).status, 400, name);
  }
  assert.equal((await server.api('DELETE', `${KEYS}/never`)).status, 404);
  assert.equal((await server.api('DELETE', `${KEYS}/a%00b`)).status, 404);
  assert.equal((await server.api('GET', '/organizations/nowhere/provisionerkeys')).status, 404);
});

test('lets only template administrators create, see and delete keys', async () => {
  const { body: other } = await server.api<Organization>('POST', '/organizations', { body: { name: 'other' } });
  const elsewhere = `/organizations/${other.id}/provisionerkeys`;
  await create('guarded');
  await create('guarded', {}, elsewhere);
  const walk = async (token: string, path: string) => {
    const name = `by-${crypto.randomUUID().slice(0, 8)}`;
    return [
      (await server.api('POST', path, { token, body: { name } })).status,
      (await server.api('GET', path, { token })).status,
      (await server.api('GET', `${path}/daemons`, { token })).status,
      (await server.api('DELETE', `${path}/${name}`, { token })).status,
      (await server.api('DELETE', `${path}/psk`, { token })).status,
    ];
  };
  const all = [201, 200, 200, 204, 400];
  const none = [403, 404, 404, 403, 403];
  const stranger = [404, 404, 404, 404, 404];
  assert.deepEqual(await walk(server.adminToken, elsewhere), all);
  const author = await insertPerson(server, 'author', ['template-admin']);
  assert.deepEqual([await walk(author.token, KEYS), await walk(author.token, elsewhere)], [all, all]);
  const member = await insertPerson(server, 'member');
  const managers = await insertPerson(server, 'managers', ['user-admin', 'auditor']);
  assert.deepEqual([await walk(member.token, KEYS), await walk(member.token, elsewhere)], [none, stranger]);
  assert.deepEqual(await walk(managers.token, KEYS), none);
  for (const role of ['organization-admin', 'organization-template-admin']) {
    const local = await insertPerson(server, role);
    await server.services.sql`UPDATE organization_members SET roles = ${[role]} WHERE user_id = ${local.id}`;
    assert.deepEqual([await walk(local.token, KEYS), await walk(local.token, elsewhere)], [all, stranger], role);
  }
});

test("finds a daemon's own key by its header, whatever the path says", async () => {
  const secret = await create('own', { a: 'b' });
  const key = 'Coder-Provisioner-Daemon-Key';
  const status = async (headers: Record<string, string>, token: string | null = null) =>
    (await preflight(headers, 'x', token)).status;
  assert.equal(await status({}), 401);
  assert.equal(await status({ [key]: '' }), 401);
  assert.equal(await status({}, server.adminToken), 401);
  assert.equal(await status({ 'Coder-Provisioner-Daemon-PSK': 'y' }), 401);
  assert.equal(await status({ [key]: secret, 'Coder-Provisioner-Daemon-PSK': 'y' }), 400);
  assert.equal(await status({ [key]: `${secret}x` }), 400);
  assert.equal(await status({ [key]: secret.slice(1) }), 400);
  assert.equal(await status({ [key]: 'x'.repeat(43) }), 401);
  const own = await preflight({ [key]: secret, 'Coder-Session-Token': '' }, secret);
  assert.deepEqual(own.body, await named('own'));
  // not by the path
  assert.equal((await preflight({}, secret)).status, 401);
});

test('writes a key in the path to no log, not even when the server fails', async () => {
  const secret = await create('logged');
  const headers = { 'Coder-Provisioner-Daemon-Key': secret };
  const { sql } = server.services;
  assert.equal((await preflight(headers, secret)).status, 200);
  assert.equal((await preflight({}, secret)).status, 401);
  assert.equal((await preflight({}, `${secret}/more`)).status, 404);
  await sql`ALTER TABLE provisioner_keys RENAME TO away`;
  const failed = await preflight(headers, secret).finally(() => sql`ALTER TABLE away RENAME TO provisioner_keys`);
  assert.equal(failed.status, 500);
  assert.match(logged, /internal error.*\/api\/v2\/provisionerkeys\/:provisionerkey/);
  assert.ok(!logged.includes(secret), 'the secret is in the log');
  assert.ok(!JSON.stringify(failed.body).includes(secret));
});

test('lists daemons under their credential while they were seen lately', async () => {
  const { sql } = server.services;
  await create('crew');
  const key = await named('crew');
  const fresh = await daemonOf(key, 'fresh');
  const old = await daemonOf(key, 'old');
  const stale = await daemonOf(key, 'stale');
  const built = await daemonOf({ ...key, id: BUILT_IN_KEY_ID }, 'built');
  const byPsk = await daemonOf({ ...key, id: PSK_KEY_ID }, 'by-psk');
  const byUser = await daemonOf({ ...key, id: USER_AUTH_KEY_ID }, 'by-user');
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '181 seconds' WHERE id = ${old.id}`;
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '170 seconds' WHERE id = ${stale.id}`;
  const { body } = await server.api<ProvisionerKeyDaemons[]>('GET', `${KEYS}/daemons`);
  const found = new Map(body.map((entry) => [entry.key.name, entry.daemons.map(({ id }) => id).sort()]));
  assert.deepEqual(found.get('crew'), [fresh.id, stale.id].sort());
  assert.deepEqual(found.get('built-in'), [built.id]);
  assert.deepEqual(found.get('psk'), [byPsk.id]);
  assert.deepEqual(found.get('user-auth'), [byUser.id]);
  const crew = body.find((entry) => entry.key.name === 'crew')!;
  assert.deepEqual(crew.key, key);
  assert.deepEqual(crew.daemons.map(({ name, status, key_name }) => [name, status, key_name]).sort(), [
    ['fresh', 'idle', 'crew'],
    ['stale', 'offline', 'crew'],
  ]);
  const reserved = body.filter(({ key: { id } }) => id.startsWith('00000000'));
  assert.deepEqual(reserved.map(({ key: { name } }) => name).sort(), ['built-in', 'psk', 'user-auth']);

  const { body: other } = await server.api<Organization>('POST', '/organizations', { body: { name: 'elsewhere' } });
  const there = await server.api<ProvisionerKeyDaemons[]>('GET', `/organizations/${other.id}/provisionerkeys/daemons`);
  assert.deepEqual(
    there.body.map(({ key: { name, organization }, daemons }) => [name, organization, daemons]),
    [['user-auth', other.id, []]],
  );
});

test('deletes idle daemons with their key, and notifies every server', async () => {
  const { sql, events } = server.services;
  await create('doomed');
  await create('spared');
  const key = await named('doomed');
  const spared = await daemonOf(await named('spared'), 'spared');
  const tags = { ...UNTAGGED, doom: 'yes' };
  const [idle, busy] = [await daemonOf(key, 'idle', tags), await daemonOf(key, 'busy', tags)];
  const version = await pendingVersion(server, { tags: { doom: 'yes' } });
  const job = await acquireJob(sql, {
    worker: verifiedDaemon({
      id: busy.id,
      organizationId: busy.organization_id,
      provisioners: ['terraform'],
      tags,
    }),
    leaseMs: 60_000,
  });
  assert.equal(job?.id, version.job.id);
  let received: (ids: string[]) => void = () => {};
  const revoked = new Promise<string[]>((resolve) => {
    received = resolve;
  });
  const off = events.on('revoked', ({ provisioner_key_ids: ids }) => ids && received(ids));
  assert.equal((await server.api('DELETE', `${KEYS}/doomed`)).status, 204);
  assert.deepEqual(await revoked, [key.id]);
  off();
  const left = await sql<{ id: string }[]>`
    SELECT id FROM provisioner_daemons WHERE id = ANY(${[idle.id, busy.id, spared.id]}::uuid[])`;
  assert.deepEqual(left.map(({ id }) => id).sort(), [busy.id, spared.id].sort());
});
