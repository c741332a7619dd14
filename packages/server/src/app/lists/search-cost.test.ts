import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, WorkspacesResponse } from '@ropewalk/contract';
import { createPerson, createTestTemplate, startTestServer, type TestServer } from '@ropewalk/testkit';
import { MAX_SEARCH_LENGTH, MAX_SEARCH_TERMS } from './search.ts';

/** Far above the time of any search here, far below that of one unbounded search (25 s). */
const MAX_MS = 8_000;
/** The longest that a list runs, in ms. */
const LIST_MS = 5_000;
const WORKSPACES = 25;

let server: TestServer;
let template: Template;
let member: { id: string; token: string };
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'base', {
    richParameters: [{ name: 'region', type: 'string', mutable: true, required: true }],
  });
  member = await createPerson(server, 'member');
  for (let i = 0; i < WORKSPACES; i += 1) {
    const made = await server.api('POST', '/users/me/workspaces', {
      token: member.token,
      body: {
        name: `dev-${i}`,
        template_id: template.id,
        rich_parameter_values: [{ name: 'region', value: i % 2 === 0 ? 'eu' : 'us' }],
      },
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  }
});
after(() => server.stop());

const DATE = '2026-01-31T12:00:00Z';
const VALUES: Readonly<Record<string, string>> = {
  outdated: 'true',
  dormant: 'false',
  deleted: 'false',
  favorite: 'false',
  shared: 'false',
  'has-ai-task': 'false',
  has_external_agent: 'false',
  healthy: 'false',
  last_used_before: DATE,
  last_used_after: DATE,
  created_before: DATE,
  created_after: DATE,
  service_account: 'false',
  last_seen_before: DATE,
  last_seen_after: DATE,
  deprecated: 'false',
  status: 'active',
  login_type: 'password',
};
const PEOPLE = [
  ...['search', 'name', 'status', 'role', 'login_type', 'last_seen_before', 'last_seen_after'],
  ...['created_before', 'created_after', 'github_com_user_id', 'service_account'],
];
const LISTS: Readonly<Record<string, readonly string[]>> = {
  '/workspaces': [
    ...['owner', 'name', 'template', 'status', 'has-agent', 'dormant', 'deleted', 'outdated', 'organization', 'id'],
    ...[
      'last_used_before',
      'last_used_after',
      'favorite',
      'param',
      'shared',
      'shared_with_group',
      'shared_with_user',
      'has-ai-task',
      'has_external_agent',
      'healthy',
    ],
  ],
  '/users': PEOPLE,
  '/organizations/default/paginated-members': PEOPLE,
  '/organizations/default/groups/Everyone/members': PEOPLE,
  '/tasks': ['owner', 'organization', 'status'],
  '/templates': ['name', 'exact_name', 'organization', 'deprecated', 'deleted', 'has-ai-task'],
};

/** As many terms of one key as a search may have, then one value as long as a search may be. */
function heaviest(key: string): string[] {
  const value = VALUES[key];
  const terms = Array.from({ length: MAX_SEARCH_TERMS }, (_, i) => `${key}:${value ?? `a${i}=b`}`).join(' ');
  const long = `${key}:`;
  return [
    terms,
    ...(value === undefined
      ? [
          long + '%_'.repeat((MAX_SEARCH_LENGTH - long.length) / 2),
          long + 'a,'.repeat((MAX_SEARCH_LENGTH - long.length) / 2),
        ]
      : []),
  ];
}

for (const [path, keys] of Object.entries(LISTS)) {
  test(`bounds the cost of any search term of ${path}`, async () => {
    const { body } = await server.api<{ validations: { detail: string }[] }>('GET', `${path}?q=no-such-key:1`);
    const known = /valid ones are (.*)$/.exec(body.validations[0]!.detail)?.[1]?.split(', ');
    assert.deepEqual([...keys].sort(), known?.sort(), 'every key of the list is tried here');
    for (const q of keys.flatMap(heaviest)) {
      const from = performance.now();
      const { status } = await server.api('GET', `${path}?q=${encodeURIComponent(q)}`, { token: member.token });
      assert.ok([200, 400].includes(status), `${q.slice(0, 60)}: ${status}`);
      const took = performance.now() - from;
      assert.ok(took < MAX_MS, `${q.slice(0, 60)}: ${took.toFixed()} ms`);
    }
  });
}

test('rejects a search with too many terms or characters', async () => {
  const many = Array.from({ length: 150 }, () => 'param:a').join(' ');
  for (const q of [many, 'a'.repeat(MAX_SEARCH_LENGTH + 1)]) {
    const { status, body } = await server.api<{ validations: { field: string }[] }>(
      'GET',
      `/workspaces?q=${encodeURIComponent(q)}`,
      { token: member.token },
    );
    assert.equal(status, 400);
    assert.equal(body.validations[0]?.field, 'q');
  }
});

test('finds workspaces that match every parameter of a search', async () => {
  const count = async (q: string) =>
    (await server.api<WorkspacesResponse>('GET', `/workspaces?q=${encodeURIComponent(q)}`)).body.count;
  assert.equal(await count('param:region=EU'), 13);
  assert.equal(await count('param:Region'), WORKSPACES);
  assert.equal(await count('param:region param:region=us'), 12);
  assert.equal(await count('param:region=eu param:region=us'), 0);
  assert.equal(await count('param:region param:other'), 0);
});

test('ends a list that takes too long with 504, without blocking connections of others', async () => {
  const { lists, sql } = server.services;
  const sleeping = Array.from({ length: 4 }, () =>
    lists`SELECT pg_sleep(60)`.then(
      () => 'slept',
      (err: { code: string }) => err.code,
    ),
  );
  const from = performance.now();
  const alive = await server.api('GET', '/users/me');
  assert.equal(alive.status, 200);
  assert.ok(performance.now() - from < LIST_MS, 'other requests do not wait for lists');
  const [limit] = await sql<{ statement_timeout: string }[]>`SHOW statement_timeout`;
  assert.equal(limit!.statement_timeout, '30s');
  const waiting = await server.api<{ message: string }>('GET', '/templates');
  assert.ok([200, 504].includes(waiting.status));
  assert.deepEqual(new Set(await Promise.all(sleeping)), new Set(['57014']));
});
