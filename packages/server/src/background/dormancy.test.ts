import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { User } from '@ropewalk/contract';
import { createPerson, firstRuns, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { findDormantUsers } from './dormancy.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_DORMANCY_THRESHOLD: '720h' } });
  await firstRuns(server, 'dormant users');
});
after(() => server.stop());

const status = async (id: string) => (await server.api<User>('GET', `/users/${id}`)).body.status;

test('makes absent people dormant, and wakes them when they come back', async () => {
  const { services } = server;
  const [away, here, barred] = [
    await createPerson(server, 'away'),
    await createPerson(server, 'here'),
    await createPerson(server, 'barred'),
  ];
  await server.api('PUT', `/users/${barred.id}/status/suspend`);
  const age = (days: number) => services.sql`UPDATE users SET last_seen_at = now() - make_interval(days => ${days})
    WHERE id = ANY (${[away.id, barred.id]})`;
  await age(29);
  assert.equal(await findDormantUsers(services), 0);
  await age(31);
  assert.equal(await findDormantUsers(services), 1);
  assert.deepEqual(
    [await status(away.id), await status(here.id), await status(barred.id)],
    ['dormant', 'active', 'suspended'],
  );
  const [entry] = await services.sql<{ diff: Record<string, { old: string; new: string }> }[]>`
    SELECT diff FROM audit_logs WHERE resource_id = ${away.id} ORDER BY time DESC LIMIT 1`;
  assert.deepEqual([entry!.diff['status']!.old, entry!.diff['status']!.new], ['active', 'dormant']);
  await logIn(server, 'away@example.com', 'away correct horse');
  assert.equal(await status(away.id), 'active');
  // an open session wakes a person, too
  await age(31);
  assert.equal(await findDormantUsers(services), 1);
  assert.equal((await server.api('GET', '/users/me', { token: away.token })).status, 200);
  assert.equal(await status(away.id), 'active');
});
