import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { ProvisionerJob } from '@ropewalk/contract';
import { eventually, insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { type Joining, joinDaemon } from './testing/daemons.ts';

// A daemon whose credential is revoked: the server cuts an idle one within five seconds. A running job is canceled and may end.

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

async function joined(as: Joining) {
  const { connection, session, daemon } = await joinDaemon(server, 'd', as);
  return { session, client: daemon, closed: connection.closed };
}

async function makeKey(name: string, tags: Record<string, string>): Promise<string> {
  const { sql } = server.services;
  const secret = name.padEnd(43, 'x');
  await sql`INSERT INTO provisioner_keys (organization_id, name, hashed_secret, tags) SELECT id, ${name},
    ${createHash('sha256').update(secret).digest()}, ${sql.json(tags)} FROM organizations WHERE is_default`;
  return secret;
}

/** Waits for the cut. The server needs the database for it, so that a slow database makes each look slow. */
function cutSoon({ session }: Awaited<ReturnType<typeof joined>>, withinMs = 5_000) {
  const look = async () => {
    await server.services.sql`SELECT`;
    return session.isClosed;
  };
  return eventually('the cut', look, withinMs);
}

test('cuts an idle daemon: token deleted, permission lost, user suspended, key gone without a notification', async () => {
  const { sql } = server.services;
  const people = await Promise.all(
    ['leaver', 'demoted', 'suspended', 'stays'].map((name) => insertPerson(server, name, ['template-admin'])),
  );
  const [leaver, demoted, suspended, stays] = await Promise.all(people.map(({ token }) => joined({ token })));
  const key = await makeKey('silent', { zone: 'silent' });
  const silent = await joined({ key });

  assert.equal((await server.api('POST', '/users/logout', { token: people[0]!.token })).status, 200);
  await cutSoon(leaver!);
  assert.equal((await leaver!.closed).code, 1001);
  assert.equal((await server.api('PUT', `/users/${people[1]!.id}/roles`, { body: { roles: [] } })).status, 200);
  await cutSoon(demoted!);
  assert.equal((await server.api('PUT', `/users/${people[2]!.id}/status/suspend`)).status, 200);
  await cutSoon(suspended!);
  await sql`DELETE FROM provisioner_keys WHERE name = 'silent'`;
  await cutSoon(silent);
  assert.equal(stays!.session.isClosed, false, 'another person’s daemon was cut, too');
  stays!.session.close();
});

test('cuts a daemon whose token expires, while a daemon with a session extends it', async () => {
  const { sql } = server.services;
  const person = await insertPerson(server, 'hasty', ['template-admin']);
  const steady = await insertPerson(server, 'steady', ['template-admin']);
  const { body } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: person.token,
    body: { token_name: 'short', lifetime: 3_600_000_000_000 },
  });
  const short = await joined({ token: body.key });
  const session = await joined({ token: steady.token });
  await sql`UPDATE api_keys SET expires_at = now() + interval '1 second' WHERE id = ${body.key.split('-')[0]!}`;
  const id = steady.token.slice(0, 10);
  await sql`UPDATE api_keys SET expires_at = now() + interval '30 seconds', login_type = 'password',
    lifetime_seconds = 86400 WHERE id = ${id}`;
  await cutSoon(short, 7_000);
  await eventually('the session is extended', async () => {
    const [key] = await sql<{ left: number }[]>`
      SELECT extract(epoch FROM expires_at - now())::float8 AS left FROM api_keys WHERE id = ${id}`;
    return key!.left > 3_600;
  });
  await session.session.ping();
  await session.session.close();
});

test('cancels a running job, accepts its end, and then cuts the daemon', async () => {
  const key = await makeKey('worked', { zone: 'worked' });
  const one = await joined({ key });
  const version = await pendingVersion(server, { tags: { zone: 'worked' } });
  let jobId = '';
  for await (const job of one.client.acquireJobWithCancel().responses) {
    jobId = job.jobId;
    break;
  }
  assert.equal(jobId, version.job.id);
  assert.equal((await one.client.updateJob({ jobId })).canceled, false);
  assert.equal((await server.api('DELETE', '/organizations/default/provisionerkeys/worked')).status, 204);
  await eventually('the cancel', async () => (await one.client.updateJob({ jobId })).canceled, 5_000);
  // the daemon gets no other job
  const next = await pendingVersion(server, { tags: { zone: 'worked' } });
  for await (const job of one.client.acquireJobWithCancel().responses) assert.equal(job.jobId, '');
  await one.client.failJob({ jobId, error: 'terraform was interrupted', type: { case: 'templateImport', value: {} } });
  await cutSoon(one);
  const status = async (id: string) =>
    (await server.api<ProvisionerJob>('GET', `/organizations/default/provisionerjobs/${id}`)).body.status;
  assert.equal(await status(jobId), 'canceled');
  assert.equal(await status(next.job.id), 'pending');
  const logs = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  assert.match(
    logs.body.map(({ output }) => output).join('\n'),
    /The credential of the provisioner daemon \S+ was revoked/,
  );
});
