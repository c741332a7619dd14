import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteDef, type RouteKey, routes } from '@platform/contract';
import { insertPerson, startTestServer, type TestServer } from '@platform/testkit';
import { sampleRequest } from './testing/route-sample.ts';
import { UNENFORCED } from './unenforced.ts';

interface Refusal {
  message: string;
  validations?: { field: string }[];
}
let server: TestServer;
let things: Record<string, string>;
before(async () => {
  server = await startTestServer();
  const { id } = await insertPerson(server, 'holder');
  const { body } = await server.api<{ id: string }>('GET', '/organizations/default');
  things = { user: id, organization: body.id };
});
after(() => server.stop());

/** Values that restrict nothing, and values that restrict, by key. */
const VALUES: Record<string, { harmless: unknown[]; restricts: unknown[] }> = {
  scopes: { harmless: [null, [], ['all'], ['coder:all']], restricts: [['workspace:read'], ['all', 'x'], 'all', {}] },
  allow_list: {
    harmless: [null, [], ['*:*'], [{ type: '*', id: '*' }]],
    restricts: [['workspace:1'], [{ type: 'workspace', id: '*' }], 'x', {}],
  },
  service_account: { harmless: [null, false], restricts: [true, 'yes', 1] },
  organization_member_permissions: {
    harmless: [null, [], [{ action: 'read', resource_type: 'template' }]],
    restricts: [[{ action: 'read', resource_type: 'template', negate: true }], 'x', {}],
  },
  default_org_member_roles: { harmless: [null], restricts: [[], ['x']] },
};

test('rejects keys of newer clients that restrict what the server would not, and names them', async () => {
  for (const key of Object.keys(UNENFORCED) as RouteKey[]) {
    const def: RouteDef = routes[key];
    for (const name of Object.keys(UNENFORCED[key]!)) {
      assert.ok(
        def.body && !(name in ((def.body as { properties?: object }).properties ?? {})),
        `${key}: the contract has "${name}" now`,
      );
      const send = (value: unknown) => {
        const { method, path, body } = sampleRequest(key, things);
        return server.api<Refusal>(method, path, { body: { ...(body as object), [name]: value } });
      };
      for (const value of VALUES[name]!.restricts) {
        const { status, body } = await send(value);
        assert.equal(status, 400, `${key} ${name}: ${JSON.stringify(value)}`);
        assert.equal(body.message, `This server cannot enforce "${name}".`);
        assert.deepEqual(
          body.validations?.map(({ field }) => field),
          [name],
        );
      }
      for (const value of VALUES[name]!.harmless) {
        const { body } = await send(value);
        assert.doesNotMatch(JSON.stringify(body), /cannot enforce/, `${key} ${name}: ${JSON.stringify(value)}`);
      }
    }
  }
});

test('creates no token whose scopes it would ignore', async () => {
  const count = async () => (await server.services.sql`SELECT id FROM api_keys WHERE login_type = 'token'`).length;
  const before = await count();
  const create = (body: object) => server.api('POST', '/users/me/keys/tokens', { body });
  assert.equal((await create({ token_name: 'narrow', scopes: ['workspace:read'] })).status, 400);
  assert.equal((await create({ token_name: 'narrow', scope: 'workspace:read' })).status, 400);
  assert.equal(await count(), before);
  assert.equal((await create({ token_name: 'wide', scopes: ['all'], allow_list: ['*:*'], scope: 'all' })).status, 201);
  assert.equal(await count(), before + 1);
});
