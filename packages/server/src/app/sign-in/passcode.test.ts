import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditLogResponse, AuthMethods, Response } from '@ropewalk/contract';
import { createPerson, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { type MailServer, startMailServer } from '../notification/testing/mail-server.ts';

let mail: MailServer;
let server: TestServer;
before(async () => {
  mail = await startMailServer();
  server = await startTestServer({
    env: {
      CODER_EMAIL_SMARTHOST: `127.0.0.1:${mail.port}`,
      CODER_EMAIL_FROM: 'coder@example.com',
      CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'false',
    },
  });
});
after(async () => {
  await server.stop();
  await mail.close();
});

const ask = (email: string) => server.api<Response>('POST', '/users/otp/request', { token: null, body: { email } });
const change = (email: string, one_time_passcode: string, password: string) =>
  server.api<Response>('POST', '/users/otp/change-password', {
    token: null,
    body: { email, one_time_passcode, password },
  });

/** The code in the newest mail to this address, once there are so many. */
async function codeIn(email: string, count = 1): Promise<string> {
  const found = await eventually(`mail ${count} to ${email}`, async () => {
    const all = mail.mails.filter(({ to }) => to.includes(email));
    return all.length >= count && all.at(-1);
  });
  const link = /http\S+\/reset-password\/change\?otp=([0-9a-f-]{36})&email=(\S+)/.exec(found.text)!;
  assert.equal(decodeURIComponent(link[2]!), email);
  return link[1]!;
}

test('sets a forgotten password with a code from the mail, once, and ends all sessions', async () => {
  const fay = await createPerson(server, 'fay');
  const email = 'fay@example.com';
  const { body: methods } = await server.api<AuthMethods>('GET', '/users/authmethods', { token: null });
  assert.equal(methods.password_reset.enabled, true);
  assert.equal((await ask('Fay@Example.com')).status, 204);
  const first = await codeIn(email);
  await server.services
    .sql`UPDATE users SET one_time_passcode_expires_at = one_time_passcode_expires_at - interval '3 minutes' WHERE email = ${email}`;
  assert.equal((await ask(email)).status, 204);
  const code = await codeIn(email, 2);
  // a new code replaces the old one
  assert.equal((await change(email, first, 'a brand new horse')).status, 400);
  assert.equal((await change(email, code, 'short')).body.validations?.[0]?.field, 'password');
  const both = await Promise.all([change(email, code, 'a brand new horse'), change(email, code, 'a brand old horse')]);
  assert.deepEqual(both.map(({ status }) => status).sort(), [204, 400]);
  const password = both[0]!.status === 204 ? 'a brand new horse' : 'a brand old horse';
  assert.equal((await server.api('GET', '/users/me', { token: fay.token })).status, 401);
  await logIn(server, email, password);
  const { body: log } = await server.api<AuditLogResponse>('GET', '/audit?q=resource_target:fay resource_type:user');
  const listed = log.audit_logs.map(({ action, description }) => [action, description]);
  assert.deepEqual(listed.slice(0, 3), [
    ['write', '{user} updated user {target}'],
    ['request_password_reset', 'password reset requested for {target}'],
    ['request_password_reset', 'password reset requested for {target}'],
  ]);
  assert.deepEqual(log.audit_logs[0]!.diff['hashed_password'], { old: '', new: '', secret: true });
  assert.ok(!JSON.stringify(log).includes(code));
});

test('answers alike for addresses without an account, and sends them nothing', async () => {
  await createPerson(server, 'sus');
  await server.api('PUT', '/users/sus/status/suspend');
  const provided = { username: 'robot', email: 'robot@example.com', login_type: 'none' };
  await server.api('POST', '/users', { body: provided });
  const before = mail.mails.filter(({ to }) => to.join().includes('sus@')).length;
  const answers = await Promise.all(['nobody@example.com', 'sus@example.com', 'robot@example.com'].map(ask));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [204, 204, 204],
  );
  await createPerson(server, 'last');
  await ask('last@example.com');
  await codeIn('last@example.com');
  const sent = mail.mails.flatMap(({ to, text }) => (text.includes('Set a new password') ? to : []));
  assert.ok(!sent.includes('nobody@example.com') && !sent.includes('robot@example.com'));
  const toSuspended = mail.mails.filter(({ to, text }) => to.join().includes('sus@') && text.includes('otp='));
  assert.equal(toSuspended.length, 0);
  assert.ok(before >= 0);
});

test('rejects wrong and expired codes, and limits attempts', async () => {
  await createPerson(server, 'exa');
  const email = 'exa@example.com';
  await ask(email);
  const code = await codeIn(email);
  await server.services
    .sql`UPDATE users SET one_time_passcode_expires_at = now() - interval '1 second' WHERE email = ${email}`;
  assert.equal((await change(email, code, 'another fine horse')).status, 400);
  const statuses: number[] = [];
  for (let i = 0; i < 8; i++) statuses.push((await change(email, crypto.randomUUID(), 'another fine horse')).status);
  assert.ok(statuses.includes(400) && statuses.at(-1) === 429, String(statuses));
  // attempts with codes delay no sign-in
  await logIn(server, email, 'exa correct horse');
});

test('a flood of requests neither ends a code nor fills the mailbox', async () => {
  await createPerson(server, 'flo');
  const email = 'flo@example.com';
  const reset = () => mail.mails.filter(({ to, text }) => to.includes(email) && text.includes('otp='));
  await ask(email);
  const code = await codeIn(email);
  const { sql } = server.services;
  const requests = async () =>
    Number(
      (
        await sql`SELECT count(*) AS n FROM audit_logs WHERE action = 'request_password_reset' AND resource_target = 'flo'`
      )[0]!['n'],
    );
  assert.equal(await requests(), 1);
  for (let i = 0; i < 3; i++) assert.equal((await ask(email)).status, 204);
  // the requests of others come after the flood has been worked off
  await createPerson(server, 'after');
  await ask('after@example.com');
  await codeIn('after@example.com');
  assert.equal(await requests(), 1);
  assert.equal((await change(email, code, 'another fine horse')).status, 204);
  assert.equal(reset().length, 1);
});

test('is not offered without a mail server', async () => {
  const other = await startTestServer();
  try {
    const { body } = await other.api<AuthMethods>('GET', '/users/authmethods', { token: null });
    assert.equal(body.password_reset.enabled, false);
    const answer = await other.api<Response>('POST', '/users/otp/request', {
      token: null,
      body: { email: 'a@b.example' },
    });
    assert.deepEqual([answer.status, answer.body.message], [403, 'Passwords cannot be reset by email on this server.']);
  } finally {
    await other.stop();
  }
});
