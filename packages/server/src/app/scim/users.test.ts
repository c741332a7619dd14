import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { User } from '@ropewalk/contract';
import { createPerson, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { type MailServer, startMailServer } from '../notification/testing/mail-server.ts';

const SECRET = 'a long secret of the provisioning client';
let mail: MailServer;
let server: TestServer;
before(async () => {
  mail = await startMailServer();
  server = await startTestServer({
    env: {
      CODER_EMAIL_SMARTHOST: `127.0.0.1:${mail.port}`,
      CODER_EMAIL_FROM: 'coder@example.com',
      CODER_SCIM_AUTH_HEADER: SECRET,
      CODER_OIDC_ISSUER_URL: 'http://127.0.0.1:1',
      CODER_OIDC_CLIENT_ID: 'client',
    },
  });
});
after(async () => {
  await server.stop();
  await mail.close();
});

interface ScimUser {
  id: string;
  userName: string;
  externalId?: string;
  active: boolean;
  name: { formatted: string };
  emails: { value: string; primary: boolean }[];
  detail?: string;
  totalResults?: number;
  Resources?: ScimUser[];
}

interface Discovered {
  totalResults: number;
  Resources: { endpoint: string; schema: string }[];
  attributes: { name: string }[];
}

async function scim(method: string, path: string, body?: unknown, authorization = `Bearer ${SECRET}`) {
  const response = await fetch(`${server.url}/scim/v2${path}`, {
    method,
    headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/scim+json' }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  if (text !== '') assert.match(response.headers.get('content-type')!, /^application\/scim\+json/);
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as ScimUser };
}
const account = async (id: string) => (await server.api<User>('GET', `/users/${id}`)).body;
const operations = (...list: object[]) => ({
  schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
  Operations: list,
});

/** The mail to the old address of an account, once it is there. */
async function movedMail(address: string): Promise<string> {
  const found = await eventually(`the mail to ${address}`, async () =>
    mail.mails.find(({ to, text }) => to.includes(address) && text.includes('address of your account was changed')),
  );
  return found.text.replaceAll(/=\r?\n/g, '');
}

/** As Entra ID creates a user. */
const NELL = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:User', 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'],
  externalId: 'nell-in-entra',
  userName: 'nell.b@corp.example',
  active: true,
  displayName: 'Nell B',
  emails: [
    { primary: false, type: 'home', value: 'nell@home.example' },
    { primary: true, type: 'work', value: 'nell.b@corp.example' },
  ],
  name: { formatted: 'Nell Burns', familyName: 'Burns', givenName: 'Nell' },
  'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User': { department: 'IT', manager: { value: 'x' } },
  roles: [],
};

test('answers only with the secret', async () => {
  for (const given of ['', 'Bearer wrong', SECRET.slice(1), server.adminToken]) {
    assert.equal((await scim('GET', '/Users', undefined, given)).status, 401);
  }
  assert.equal((await scim('GET', '/ServiceProviderConfig', undefined, SECRET)).status, 200);
});

test('describes what a person has, as clients ask for it before they send people', async () => {
  const discover = async (path: string) => (await scim('GET', path)).body as unknown as Discovered;
  const types = await discover('/ResourceTypes');
  const [type] = types.Resources;
  assert.deepEqual([types.totalResults, type!.endpoint], [1, '/Users']);
  assert.deepEqual(await discover('/ResourceTypes/User'), type);
  const described = await discover(`/Schemas/${type!.schema}`);
  assert.deepEqual((await discover('/Schemas')).Resources, [described]);
  const names = new Set(described.attributes.map(({ name }) => name));
  // every resource has the first four. Groups are always empty
  const common = ['schemas', 'id', 'externalId', 'meta', 'groups'];
  const person = await scim('POST', '/Users', { userName: 'described', emails: [{ value: 'd@corp.example' }] });
  assert.equal(person.status, 201);
  assert.deepEqual(
    Object.keys(person.body).filter((name) => !names.has(name) && !common.includes(name)),
    [],
  );
  for (const path of ['/Schemas/urn:other', '/ResourceTypes/Group'])
    assert.equal((await scim('GET', path)).status, 404, path);
});

test('creates, finds, suspends and reactivates people as Entra ID does', async () => {
  const query = (text: string) => scim('GET', `/Users?filter=${encodeURIComponent(text)}`);
  assert.equal((await query('userName eq "nell.b@corp.example"')).body.totalResults, 0);
  const made = await scim('POST', '/Users', NELL);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { id } = made.body;
  assert.deepEqual(
    [made.body.userName, made.body.externalId, made.body.active, made.body.name.formatted],
    ['nell.b@corp.example', 'nell-in-entra', true, 'Nell Burns'],
  );
  const user = await account(id);
  assert.deepEqual(
    [user.username, user.email, user.login_type, user.status, user.organization_ids.length],
    ['nell-b', 'nell.b@corp.example', 'oidc', 'dormant', 1],
  );
  for (const text of [
    'userName eq "NELL.B@corp.example"',
    'externalId eq "nell-in-entra"',
    'emails[type eq "work"].value eq "nell.b@corp.example"',
    `id eq "${id}"`,
  ]) {
    assert.deepEqual(
      (await query(text)).body.Resources!.map((each) => each.id),
      [id],
      text,
    );
  }
  const off = operations({ op: 'Replace', path: 'active', value: 'False' });
  const suspended = await scim('PATCH', `/Users/${id}`, off);
  assert.deepEqual([suspended.status, suspended.body.active], [200, false]);
  assert.equal((await account(id)).status, 'suspended');
  const on = operations({ op: 'Add', value: { active: 'True', 'name.givenName': 'Nelly', nonsense: { a: 1 } } });
  assert.equal((await scim('PATCH', `/Users/${id}`, on)).body.active, true);
  const back = await account(id);
  assert.deepEqual([back.status, back.name], ['dormant', 'Nelly Burns']);
  const moved = operations(
    { op: 'Replace', path: 'emails[type eq "work"].value', value: 'nelly@corp.example' },
    { op: 'Replace', path: 'userName', value: 'nelly@corp.example' },
    { op: 'Replace', path: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department', value: 'HR' },
    { op: 'Remove', path: 'displayName' },
  );
  const patched = await scim('PATCH', `/Users/${id}`, moved);
  assert.deepEqual(
    [patched.body.emails[0]!.value, patched.body.userName],
    ['nelly@corp.example', 'nelly@corp.example'],
  );
  const notice = await movedMail('nell.b@corp.example');
  assert.match(
    notice,
    /client changed the email address of your account nell-b from nell\.b@corp\.example to nelly@corp\./,
  );
  assert.equal((await scim('DELETE', `/Users/${id}`)).status, 204);
  assert.equal((await account(id)).status, 'suspended', 'the account stays for an administrator');
});

test('ends the sessions of a person that Okta deactivates', async () => {
  const { id, token } = await insertPerson(server, 'okto');
  await server.services.sql`UPDATE users SET login_type = 'oidc' WHERE id = ${id}`;
  const found = await scim('GET', `/Users?filter=${encodeURIComponent('userName eq "okto"')}&startIndex=1&count=100`);
  assert.equal(found.body.Resources![0]!.id, id);
  const created = await scim('POST', '/Users', {
    userName: 'okto@example.com',
    emails: [{ value: 'okto@example.com' }],
  });
  assert.deepEqual([created.status, created.body.id], [200, id], 'an existing account is taken over');
  // Okta's older form: the whole user, and a partial one
  const put = await scim('PUT', `/Users/${id}`, { ...created.body, active: false, groups: [{ value: 'x' }] });
  assert.equal(put.status, 200, JSON.stringify(put.body));
  assert.equal((await server.api('GET', '/users/me', { token })).status, 401);
  assert.equal((await scim('PATCH', `/Users/${id}`, { active: true })).body.active, true);
  assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
  const notes = await eventually('the messages', async () => {
    const rows = await server.services.sql<{ title: string }[]>`SELECT title FROM inbox_notifications
      WHERE ${id} = ANY (targets) AND title !~ 'created' ORDER BY title`;
    return rows.length === 4 && rows.map(({ title }) => title);
  });
  assert.deepEqual(notes, [
    "User account 'okto' was activated",
    "User account 'okto' was suspended",
    'Your account was activated',
    'Your account was suspended',
  ]);
});

test('rejects what it cannot do, in the form of SCIM', async () => {
  const admin = (await server.api<User>('GET', '/users/me')).body;
  const { body: other } = await scim('POST', '/Users', { userName: 'otto@example.com' });
  const taken = { op: 'replace', path: 'emails', value: [{ value: admin.email, primary: true }] };
  assert.equal((await scim('PATCH', `/Users/${other.id}`, operations(taken))).status, 409);
  const wrong: [string, string, unknown][] = [
    ['POST', '/Users', { userName: 'nobody' }],
    ['POST', '/Users', { emails: [{ value: 'a@b' }] }],
    ['POST', '/Users', '{'],
    ['POST', '/Users', []],
    ['PATCH', `/Users/${other.id}`, operations({ op: 'explode', path: 'active', value: true })],
    ['PATCH', `/Users/${other.id}`, operations({ op: 'replace', path: 'active', value: 'perhaps' })],
    ['PATCH', `/Users/${other.id}`, { Operations: 'x' }],
    ['GET', '/Users?filter=userName+sw+%22a%22', undefined],
    ['GET', '/Users?filter=userName+eq+%22a%00%22', undefined],
  ];
  for (const [method, path, body] of wrong) {
    const answer = await scim(method, path, body);
    assert.equal(answer.status, 400, `${method} ${path} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`);
    assert.ok(answer.body.detail);
  }
  assert.equal((await scim('GET', '/Users/x')).status, 404);
  assert.equal((await scim('GET', `/Users/${crypto.randomUUID()}`)).status, 404);
});

test('changes no account that it did not make and that does not sign in with the provider', async () => {
  const { id } = await createPerson(server, 'pat', ['owner']);
  const before = await account(id);
  const move = operations({ op: 'replace', path: 'emails', value: [{ value: 'evil@corp.example', primary: true }] });
  const attempts: [string, string, unknown?][] = [
    ['PATCH', `/Users/${id}`, move],
    ['PATCH', `/Users/${id}`, { active: false, name: { formatted: 'Pat the Owner' } }],
    ['PATCH', `/Users/${id}`, operations({ op: 'replace', path: 'externalId', value: 'mine' })],
    ['PUT', `/Users/${id}`, { userName: 'pat', emails: [{ value: 'evil@corp.example' }] }],
    ['DELETE', `/Users/${id}`],
  ];
  for (const [method, path, body] of attempts) {
    const { status, body: answer } = await scim(method, path, body);
    assert.equal(status, 403, `${method} ${JSON.stringify(body)}: ${JSON.stringify(answer)}`);
    assert.match(
      answer.detail!,
      /^The account "pat" signs in with a password, and no provisioning client created it\./,
    );
  }
  const taken = await scim('POST', '/Users', { userName: 'pat@example.com', externalId: 'mine' });
  assert.equal(taken.status, 409);
  assert.match(taken.body.detail!, /^The account "pat" has this email address\. It signs in with a password/);
  assert.deepEqual(await account(id), { ...before, last_seen_at: (await account(id)).last_seen_at });
});

test('an account that has a password now can be suspended by the client that made it, not moved', async () => {
  const { body: made } = await scim('POST', '/Users', { userName: 'quinn@corp.example', active: true });
  const password = 'quinn correct horse';
  const typed = await server.api('POST', `/users/${made.id}/convert-login`, {
    body: { to_type: 'password', password },
  });
  assert.ok(typed.status < 300, JSON.stringify(typed.body));
  const moved = await scim('PATCH', `/Users/${made.id}`, {
    active: false,
    emails: [{ value: 'evil@corp.example', primary: true }],
  });
  assert.equal(moved.status, 403);
  assert.match(moved.body.detail!, /^The account "quinn" signs in with a password, so its email address/);
  assert.equal((await scim('PATCH', `/Users/${made.id}`, { active: false })).status, 200);
  assert.deepEqual(
    [(await account(made.id)).email, (await account(made.id)).status],
    ['quinn@corp.example', 'suspended'],
  );
});

test('the address of an account that got roles is changed only after the first sign-in', async () => {
  const { sql } = server.services;
  const move = (name: string) => ({ emails: [{ value: `evil-${name}@corp.example`, primary: true }] });
  const give: [name: string, path: (id: string) => string, role: string][] = [
    ['owen', (id) => `/users/${id}/roles`, 'owner'],
    ['orla', (id) => `/organizations/default/members/${id}/roles`, 'organization-admin'],
  ];
  for (const [name, path, role] of give) {
    const { body: made } = await scim('POST', '/Users', { userName: `${name}@corp.example`, active: true });
    assert.equal((await server.api('PUT', path(made.id), { body: { roles: [role] } })).status, 200);
    const refused = await scim('PATCH', `/Users/${made.id}`, move(name));
    assert.equal(refused.status, 403);
    assert.match(refused.body.detail!, /has roles, and its user has not signed in yet/);
    assert.equal((await account(made.id)).email, `${name}@corp.example`);
    await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
      VALUES (${made.id}, 'oidc', ${name}, '', '', '{}')`;
    assert.equal((await scim('PATCH', `/Users/${made.id}`, move(name))).status, 200);
    assert.equal((await scim('PATCH', `/Users/${made.id}`, { active: false })).status, 200);
  }
});

test('the address of an account that it did not make is changed only after the first sign-in', async () => {
  const { sql } = server.services;
  const { id } = await insertPerson(server, 'rae');
  await sql`UPDATE users SET login_type = 'oidc' WHERE id = ${id}`;
  const move = { emails: [{ value: 'evil@corp.example', primary: true }] };
  // the person who has the address at the provider gets the account
  const early = await scim('PATCH', `/Users/${id}`, move);
  assert.equal(early.status, 403);
  assert.match(early.body.detail!, /^The user of the account "rae" has not signed in yet/);
  assert.equal((await scim('PATCH', `/Users/${id}`, { name: { formatted: 'Rae R' } })).status, 200);
  // the same address in another case, as directories store it, does not move it
  const emails = [{ value: 'Rae@example.com', primary: true }];
  const taken = await scim('POST', '/Users', { userName: 'Rae@example.com', emails, active: true });
  assert.deepEqual([taken.status, taken.body.id], [200, id], JSON.stringify(taken.body));
  await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    VALUES (${id}, 'oidc', 'rae', '', '', '{}')`;
  assert.equal((await scim('PATCH', `/Users/${id}`, move)).status, 200);
  assert.equal((await account(id)).email, 'evil@corp.example');
  await movedMail('Rae@example.com');
});

test('the last owner stays, also where the owner signs in with the provider', async () => {
  const { sql } = server.services;
  const admin = (await server.api<User>('GET', '/users/me')).body;
  await sql`UPDATE users SET rbac_roles = '{}' WHERE username = 'pat'`;
  await sql`UPDATE users SET login_type = 'oidc' WHERE id = ${admin.id}`;
  const last = await scim('PATCH', `/Users/${admin.id}`, operations({ op: 'replace', value: { active: false } }));
  assert.equal(last.status, 409);
  assert.match(last.body.detail!, /last owner/);
});
