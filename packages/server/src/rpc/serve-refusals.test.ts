import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

// Who may join as a provisioner daemon, how the server rejects everyone else, and whose daemon it is.

const PSK = 'refusals pre-shared key';
const NIL = '00000000-0000-0000-0000-000000000000';

let server: TestServer;
let member: { id: string; token: string };
let other: string;
const secrets: Record<string, string> = {};

before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
  member = await insertPerson(server, 'member');
  const { sql } = server.services;
  const [made] = await sql<{ id: string }[]>`INSERT INTO organizations (name) VALUES ('other') RETURNING id`;
  other = made!.id;
  const home = sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  secrets['key'] = await insertKey((await home)[0]!.id, 'key', { zone: 'a' });
  secrets['twin'] = await insertKey((await home)[0]!.id, 'twin', { zone: 'a' });
  secrets['elsewhere'] = await insertKey(other, 'elsewhere', {});
});
after(() => server.stop());

async function insertKey(organizationId: string, name: string, tags: Record<string, string>): Promise<string> {
  const { sql } = server.services;
  const secret = randomBytes(32).toString('base64url');
  assert.equal(secret.length, 43);
  await sql`INSERT INTO provisioner_keys (organization_id, name, hashed_secret, tags)
    VALUES (${organizationId}, ${name}, ${createHash('sha256').update(secret).digest()}, ${sql.json(tags)})`;
  return secret;
}

/** The request of a daemon. By default it is valid and uses the pre-shared key. */
interface Dial {
  organization?: string;
  key?: string;
  psk?: string;
  token?: string;
  /** In the order given. A name may appear twice. */
  query?: [string, string][];
}

const GOOD: [string, string][] = [
  ['version', '1.8'],
  ['version', '1.8'],
  ['provisioner', 'terraform'],
  ['name', 'daemon'],
];
const changed = (...changes: [string, string | undefined][]): [string, string][] => [
  ...GOOD.filter(([name]) => !changes.some(([other]) => other === name)),
  ...changes.filter((change): change is [string, string] => change[1] !== undefined),
];

function dial({ organization = 'default', key, psk, token, query = GOOD }: Dial) {
  const url = new URL(`${server.url}/api/v2/organizations/${organization}/provisionerdaemons/serve`);
  for (const [name, value] of query) url.searchParams.append(name, value);
  return dialWebSocket(url, {
    headers: {
      ...(key === undefined ? {} : { 'Coder-Provisioner-Daemon-Key': key }),
      ...(psk === undefined ? {} : { 'Coder-Provisioner-Daemon-PSK': psk }),
      ...(token === undefined ? {} : { Cookie: `coder_session_token=${token}` }),
    },
  });
}

interface Refusal extends Dial {
  what: string;
  status: number;
  /** A part of the message or the detail. */
  says?: RegExp;
  /** The validation's field. */
  field?: string;
}

const refusals = (): Refusal[] => [
  { what: 'no authentication', status: 401 },
  { what: 'a key and a token', status: 400, key: secrets['key']!, token: server.adminToken },
  { what: 'the PSK and a token', status: 400, psk: PSK, token: server.adminToken },
  { what: 'a key and the PSK', status: 401, key: secrets['key']!, psk: PSK },
  { what: 'a wrong key and the PSK', status: 401, key: 'x'.repeat(43), psk: PSK },
  { what: 'a key that nobody has', status: 401, key: 'x'.repeat(43) },
  { what: 'a key of another length', status: 401, key: 'x'.repeat(42) },
  { what: 'the beginning of a key', status: 401, key: secrets['key']!.slice(0, 42) },
  { what: 'a wrong PSK', status: 401, psk: `${PSK}x` },
  { what: 'an empty PSK', status: 401, psk: '' },
  { what: 'a token that nobody has', status: 401, token: 'aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb' },
  { what: 'an unknown organization', status: 404, psk: PSK, organization: 'nowhere' },
  { what: 'the id of none', status: 404, psk: PSK, organization: crypto.randomUUID() },
  { what: 'a tag without =', status: 400, psk: PSK, query: changed(['tag', 'zone']) },
  { what: 'a tag without key', status: 400, psk: PSK, query: changed(['tag', '=a']) },
  { what: 'no provisioner', status: 400, psk: PSK, query: changed(['provisioner', undefined]) },
  { what: 'an unknown provisioner', status: 400, psk: PSK, query: changed(['provisioner', 'pulumi']) },
  {
    what: 'an unknown provisioner with a known one',
    status: 400,
    psk: PSK,
    query: changed(['provisioner', 'terraform'], ['provisioner', 'pulumi']),
  },
  { what: 'tags with a key', status: 403, says: /scope/, key: secrets['key']!, query: changed(['tag', 'a=b']) },
  { what: 'the PSK elsewhere', status: 403, says: /scope/, psk: PSK, organization: 'other' },
  { what: 'a member, for the organization', status: 403, says: /organization/, token: member.token },
  {
    what: 'a member, with the scope named',
    status: 403,
    says: /organization/,
    token: member.token,
    query: changed(['tag', 'scope=organization']),
  },
  { what: 'a NUL in a tag’s value', status: 400, field: 'tags', psk: PSK, query: changed(['tag', 'a=b\0']) },
  { what: 'a NUL in a tag’s key', status: 400, field: 'tags', psk: PSK, query: changed(['tag', 'a\0=b']) },
  ...['1.21', '2.0', '0.9', '1', '1.8.0', 'x', '', ' 1.8', '-1.8', '1.8x', '99999999999999999999.1'].map(
    (version): Refusal => ({
      what: `version ${JSON.stringify(version)}`,
      status: 400,
      field: 'version',
      psk: PSK,
      query: changed(['version', version]),
    }),
  ),
  {
    what: 'the first of two versions is wrong',
    status: 400,
    field: 'version',
    psk: PSK,
    query: changed(['version', '2.0'], ['version', '1.8']),
  },
  { what: 'a name that is too long', status: 500, psk: PSK, query: changed(['name', 'n'.repeat(65)]) },
  // the order of the checks
  { what: 'no authentication before anything else', status: 401, organization: 'nowhere', query: [] },
  { what: 'the organization before the tags', status: 404, psk: PSK, organization: 'nowhere', query: [] },
  {
    what: 'the provisioner before the rule',
    status: 400,
    token: member.token,
    query: changed(['provisioner', 'pulumi']),
  },
  { what: 'the rule before NUL', status: 403, key: secrets['key']!, query: changed(['tag', 'a=b\0']) },
  { what: 'the rule before the version', status: 403, token: member.token, query: changed(['version', '2.0']) },
  {
    what: 'NUL before the version',
    status: 400,
    field: 'tags',
    psk: PSK,
    query: changed(['tag', 'a=b\0'], ['version', '2.0']),
  },
  {
    what: 'the version before the name',
    status: 400,
    field: 'version',
    psk: PSK,
    query: changed(['name', 'n'.repeat(65)], ['version', '2.0']),
  },
];

test('rejects everyone else with the reason, as JSON', async (t) => {
  for (const { what, status, says, field, ...given } of refusals()) {
    await t.test(`${what}: ${status}`, async () => {
      const refused = await dial(given).then(
        ({ connection }) => {
          connection.destroy();
          return assert.fail('it was let in');
        },
        (err: unknown) => err,
      );
      assert.ok(refused instanceof WebSocketDialError, String(refused));
      assert.equal(refused.status, status, refused.body);
      assert.match(String(refused.headers['content-type']), /^application\/json\b/);
      const body = JSON.parse(refused.body) as Record<string, unknown>;
      assert.ok(typeof body['message'] === 'string' && body['message'] !== '');
      assert.ok(['string', 'undefined'].includes(typeof body['detail']));
      const fields = (body['validations'] as { field: string }[] | undefined)?.map((entry) => entry.field);
      if (field) assert.deepEqual(fields, [field]);
      if (says) assert.match(`${body['message']}`, says);
      if (says) assert.ok(body['detail'], 'the reason');
    });
  }
  const { sql } = server.services;
  assert.equal((await sql`SELECT id FROM provisioner_daemons`).length, 0);
});

interface Row {
  id: string;
  organization_id: string;
  name: string;
  key_id: string;
  tags: Record<string, string>;
  api_version: string;
}

/** The row of a daemon that joined and left again: the only one whose connection has ended since. */
async function joined(given: Dial): Promise<Row> {
  const { sql } = server.services;
  const [before] = await sql<{ at: string }[]>`
    SELECT coalesce(max(disconnected_at), '-infinity')::text AS at FROM provisioner_daemons`;
  const { connection } = await dial(given);
  connection.destroy();
  return eventually('it has left', async () => {
    const [row] = await sql<
      Row[]
    >`SELECT * FROM provisioner_daemons WHERE disconnected_at > ${before!.at}::text::timestamptz`;
    return row;
  });
}

test('lets these credentials join, each with its own scope', async () => {
  const { sql } = server.services;
  const [home] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const organization = { scope: 'organization', owner: '' };
  const cases: [Dial, Partial<Row>][] = [
    [
      { psk: PSK, query: changed(['name', 'p'], ['tag', 'c=d=e'], ['tag', 'scope=x']) },
      { organization_id: home!.id, key_id: NIL.replace(/0$/, '3'), tags: { ...organization, c: 'd=e' } },
    ],
    [{ psk: PSK, organization: NIL, query: changed(['name', 'nil']) }, { organization_id: home!.id }],
    [{ psk: PSK, organization: home!.id, query: changed(['name', 'uuid']) }, { organization_id: home!.id }],
    [{ psk: PSK, query: changed(['name', 'n'.repeat(64)]) }, { name: 'n'.repeat(64) }],
    [{ psk: PSK, query: changed(['name', 'absent'], ['version', undefined]) }, { api_version: '1.0' }],
    [{ psk: PSK, query: changed(['name', 'first'], ['version', '1.4'], ['version', '9.9']) }, { api_version: '1.4' }],
    // upstream's daemons of 2026
    [{ psk: PSK, query: changed(['name', 'newer'], ['version', '1.18']) }, { api_version: '1.18' }],
    [{ psk: PSK, query: changed(['name', 'newest'], ['version', '1.20']) }, { api_version: '1.20' }],
    [
      { psk: PSK, query: changed(['name', 'both'], ['provisioner', 'echo'], ['provisioner', 'terraform']) },
      { name: 'both' },
    ],
    [{ key: secrets['key']!, query: changed(['name', 'k']) }, { tags: { ...organization, zone: 'a' } }],
    // the key names the organization
    [{ key: secrets['elsewhere']!, query: changed(['name', 'e']) }, { organization_id: other }],
    [
      { key: secrets['elsewhere']!, organization: 'nowhere', query: changed(['name', 'e2']) },
      { organization_id: other },
    ],
    [
      { token: member.token, query: changed(['name', 'm'], ['tag', 'scope=user'], ['tag', `owner=${NIL}`]) },
      { key_id: NIL.replace(/0$/, '2'), tags: { scope: 'user', owner: member.id } },
    ],
    [{ token: server.adminToken, query: changed(['name', 'a']) }, { tags: organization }],
    [{ token: server.adminToken, organization: 'other', query: changed(['name', 'a2']) }, { organization_id: other }],
  ];
  for (const [given, wanted] of cases) {
    const row = await joined(given);
    const got = Object.fromEntries(Object.keys(wanted).map((key) => [key, row[key as keyof Row]]));
    assert.deepEqual(got, wanted, JSON.stringify(given.query));
  }
});

test('treats a name with the same credential as the same daemon, and with another credential as another', async () => {
  const query = changed(['name', 'shared']);
  const ways: Dial[] = [
    { psk: PSK, query },
    { token: server.adminToken, query },
    { key: secrets['key']!, query },
    { key: secrets['twin']!, query },
  ];
  const first = [];
  for (const way of ways) first.push((await joined(way)).id);
  assert.equal(new Set(first).size, ways.length);
  const again = [];
  for (const way of ways) again.push((await joined(way)).id);
  assert.deepEqual(again, first);
});

test('gives a daemon with another key none of the jobs of the daemon with the same name', async (t) => {
  const open = async (key: string) => {
    const { connection } = await dial({ key, query: changed(['name', 'taken']) });
    const session = new YamuxSession(byteStream(connection), { role: 'client' });
    t.after(() => session.close());
    return createDrpcClient(ProvisionerDaemon, () => session.openStream());
  };
  const [owner, thief] = [await open(secrets['key']!), await open(secrets['twin']!)];
  const version = await pendingVersion(server, { tags: { zone: 'a' } });
  const job = await owner.acquireJobWithCancel().receive();
  assert.equal(job?.jobId, version.job.id);
  const { jobId } = job;
  const complete = { jobId, type: { case: 'templateImport', value: {} } } as const;
  const calls: [string, () => Promise<unknown>][] = [
    ['UpdateJob', () => thief.updateJob({ jobId, logs: [{ output: 'mine', stage: 's' }] })],
    ['CommitQuota', () => thief.commitQuota({ jobId, dailyCost: 1 })],
    ['FailJob', () => thief.failJob({ jobId, error: 'no' })],
    ['CompleteJob', () => thief.completeJob(complete)],
  ];
  for (const [name, call] of calls) await assert.rejects(call(), /you don't own this job/, name);
  const status = async () =>
    (await server.api<{ job: { status: string } }>('GET', `/templateversions/${version.id}`)).body.job.status;
  assert.equal(await status(), 'running');
  await owner.updateJob({ jobId });
  await owner.completeJob(complete);
  assert.equal(await status(), 'succeeded');
  await assert.rejects(thief.completeJob(complete), /you don't own this job|already completed/);
});
