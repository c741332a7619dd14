import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template } from '@ropewalk/contract';
import { createTestTemplate, heldUp, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

// Bodies whose JSON costs far more than their bytes. One of 16 MB took 43 s and 3 GB of this process.

const MIB = 1024 * 1024;
/** Far above what rejecting them takes, far below what one of them took. */
const MAX_MS = 5_000;

let server: TestServer;
let template: Template;
let member: { id: string; token: string };
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'base');
  member = await insertPerson(server, 'member');
});
after(() => server.stop());

const create = (item: string, bytes: number, type = 'application/json') =>
  server.api<{ message: string; validations?: { field: string; detail: string }[] }>('POST', '/users/me/workspaces', {
    token: member.token,
    raw: {
      type,
      data: `{"name":"a","template_id":"${template.id}","rich_parameter_values":[${`${item},`.repeat(
        bytes / (item.length + 1),
      )}${item}]}`,
    },
  });

test('answers a long list of wrong items with its first error', async () => {
  const { value, longestMs } = await heldUp(() => create('1', 2 * MIB));
  const { status, body } = value;
  assert.equal(status, 400);
  assert.deepEqual(body.validations, [
    { field: 'rich_parameter_values', detail: 'must NOT have more than 1000 items' },
  ]);
  assert.ok(longestMs < MAX_MS, `${longestMs} ms`);
});

test('rejects JSON of too many parts before it is parsed', async () => {
  for (const item of ['{}', '[]', '{"\\"{":""}']) {
    for (const type of ['application/json', 'text/plain']) {
      const { value, longestMs } = await heldUp(() => create(item, 12 * MIB, type));
      const { status, body } = value;
      assert.equal(status, 413, item);
      assert.equal(body.message, 'The request body has too many parts.');
      assert.ok(longestMs < MAX_MS, `${item}: ${longestMs} ms`);
    }
  }
  // brackets within a text do not count
  const { status } = await create('"{{{{[[[[::::\\"{{{{"', MIB);
  assert.equal(status, 400);
});

test('lists all errors of a small body', async () => {
  const { status, body } = await create('1', 4);
  assert.equal(status, 400);
  assert.deepEqual(
    body.validations?.map(({ field }) => field),
    ['rich_parameter_values.0', 'rich_parameter_values.1', 'rich_parameter_values.2'],
  );
});
