import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import { render } from './render.ts';
import { PermanentFailure } from './send.ts';
import { smtpSender } from './smtp.ts';
import { smtpSettings } from './smtp-settings.ts';
import { TEMPLATES } from './templates.ts';
import { type MailServer, startMailServer } from './testing/mail-server.ts';

let dir: string;
const at = (name: string) => join(dir, name);
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'platform-mail-'));
  for (const [name, host] of [
    ['server', 'mail.example.com'],
    ['client', 'client.example.com'],
  ] as const) {
    const subject = ['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`];
    const files = ['-keyout', at(`${name}.key`), '-out', at(`${name}.pem`)];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...subject], {
      stdio: 'ignore',
    });
  }
});
after(() => rmSync(dir, { recursive: true, force: true }));

const recipient = { id: crypto.randomUUID(), username: 'ada', name: 'Ada Ünal', email: 'ada@example.com' };
const accessUrl = 'https://coder.example.com';
const id = crypto.randomUUID();

/** Sends the test notification with these variables, and returns the mail that arrived. */
async function send(server: MailServer, env: Record<string, string>) {
  const { config } = loadConfig({
    env: { CODER_EMAIL_SMARTHOST: `127.0.0.1:${server.port}`, CODER_EMAIL_FROM: 'coder@example.com', ...env },
  });
  const template = TEMPLATES.test;
  const rendered = render(template, { labels: {}, user: recipient, baseUrl: accessUrl });
  const message = { id, template, recipient, labels: {}, targets: [], rendered, createdAt: new Date() };
  await smtpSender({ config, accessUrl })(message, AbortSignal.timeout(10_000));
  return server.mails.at(-1)!;
}

test('sends a message with text, HTML, a stable id, and the configured sender and host name', async () => {
  const server = await startMailServer();
  try {
    const mail = await send(server, { CODER_EMAIL_HELLO: 'coder.internal' });
    assert.deepEqual([mail.from, mail.to, mail.hello], ['coder@example.com', ['ada@example.com'], 'coder.internal']);
    assert.match(mail.text, /^Subject: A test notification\r?$/m);
    assert.ok(mail.text.includes(`Message-ID: <${id}@coder.example.com>`));
    assert.match(mail.text, /Content-Type: text\/plain; charset=utf-8/);
    assert.ok(mail.text.includes('Notifications work. ada requested this test.'));
    assert.ok(mail.text.includes('<strong>ada</strong>'));
    assert.ok(mail.text.includes('View notification settings: https://coder.example.com/deployment/notifications'));
    assert.match(mail.text, /Auto-Submitted: auto-generated/);
    const other = await send(server, {
      CODER_NOTIFICATIONS_EMAIL_FROM: 'Notes <notes@example.com>',
      CODER_NOTIFICATIONS_EMAIL_HELLO: 'notes.internal',
      CODER_EMAIL_SMARTHOST: '127.0.0.1:1',
      CODER_NOTIFICATIONS_EMAIL_SMARTHOST: `127.0.0.1:${server.port}`,
    });
    assert.deepEqual([other.from, other.hello], ['notes@example.com', 'notes.internal']);
  } finally {
    await server.close();
  }
});

test('signs in with a user name and password, from a file too, and with an identity', async () => {
  writeFileSync(at('password'), 'from a file\n');
  const server = await startMailServer({
    authOptional: false,
    authMethods: ['PLAIN'],
    onAuth({ username, password, authzid = '' }, _session, done) {
      const right = username === 'coder' && ['secret', 'from a file'].includes(password ?? '');
      done(right ? null : new Error('wrong'), { user: [username, password, authzid].join(' ').trim() });
    },
  });
  try {
    const login = { CODER_EMAIL_AUTH_USERNAME: 'coder', CODER_EMAIL_AUTH_PASSWORD: 'secret' };
    assert.equal((await send(server, login)).user, 'coder secret');
    const identity = { ...login, CODER_EMAIL_AUTH_IDENTITY: 'postmaster' };
    assert.equal((await send(server, identity)).user, 'coder secret postmaster');
    const file = { CODER_EMAIL_AUTH_USERNAME: 'coder', CODER_EMAIL_AUTH_PASSWORD_FILE: at('password') };
    assert.equal((await send(server, file)).user, 'coder from a file');
    const own = {
      ...login,
      CODER_NOTIFICATIONS_EMAIL_AUTH_USERNAME: 'coder',
      CODER_NOTIFICATIONS_EMAIL_AUTH_IDENTITY: 'notes',
      CODER_NOTIFICATIONS_EMAIL_AUTH_PASSWORD_FILE: at('password'),
    };
    assert.equal((await send(server, own)).user, 'coder from a file notes');
    await assert.rejects(
      send(server, { ...login, CODER_NOTIFICATIONS_EMAIL_AUTH_PASSWORD: 'wrong' }),
      /535|Invalid login/,
    );
  } finally {
    await server.close();
  }
});

test('uses TLS from the start or by STARTTLS, with a checked certificate, and never without it', async () => {
  const tls = { key: readFileSync(at('server.key')), cert: readFileSync(at('server.pem')) };
  const start = await startMailServer({ ...tls, secure: true, disabledCommands: [] });
  const upgrade = await startMailServer({ ...tls, disabledCommands: [] });
  const plain = await startMailServer();
  const trusted = { CODER_EMAIL_TLS_SERVERNAME: 'mail.example.com', CODER_EMAIL_TLS_CACERTFILE: at('server.pem') };
  const own = {
    CODER_NOTIFICATIONS_EMAIL_TLS_SERVERNAME: 'mail.example.com',
    CODER_NOTIFICATIONS_EMAIL_TLS_CACERTFILE: at('server.pem'),
  };
  try {
    assert.equal((await send(start, { ...trusted, CODER_EMAIL_FORCE_TLS: 'true' })).secure, true);
    assert.equal((await send(start, { ...own, CODER_NOTIFICATIONS_EMAIL_FORCE_TLS: 'true' })).secure, true);
    assert.equal((await send(upgrade, { ...trusted, CODER_EMAIL_TLS_STARTTLS: 'true' })).secure, true);
    assert.equal((await send(upgrade, { ...own, CODER_NOTIFICATIONS_EMAIL_TLS_STARTTLS: 'true' })).secure, true);
    const unchecked = { CODER_EMAIL_TLS_STARTTLS: 'true', CODER_EMAIL_TLS_SKIPVERIFY: 'true' };
    assert.equal((await send(upgrade, unchecked)).secure, true);
    const alsoUnchecked = { CODER_EMAIL_TLS_STARTTLS: 'true', CODER_NOTIFICATIONS_EMAIL_TLS_SKIPVERIFY: 'true' };
    assert.equal((await send(upgrade, alsoUnchecked)).secure, true);
    await assert.rejects(send(upgrade, { CODER_EMAIL_TLS_STARTTLS: 'true' }), /self-signed|certificate/);
    const wrong = { ...trusted, CODER_EMAIL_TLS_SERVERNAME: 'other.example.com', CODER_EMAIL_FORCE_TLS: 'true' };
    await assert.rejects(send(start, wrong), /altnames|certificate/i);
    await assert.rejects(send(plain, { ...trusted, CODER_EMAIL_TLS_STARTTLS: 'true' }), /STARTTLS|TLS/);
    assert.equal(plain.mails.length, 0);
  } finally {
    await Promise.all([start.close(), upgrade.close(), plain.close()]);
  }
});

test('shows the mail server a client certificate', async () => {
  const server = await startMailServer({
    key: readFileSync(at('server.key')),
    cert: readFileSync(at('server.pem')),
    secure: true,
    requestCert: true,
    ca: [readFileSync(at('client.pem'))],
    rejectUnauthorized: true,
  });
  const tls = { CODER_EMAIL_FORCE_TLS: 'true', CODER_EMAIL_TLS_SKIPVERIFY: 'true' };
  const files = { CODER_EMAIL_TLS_CERTFILE: at('client.pem'), CODER_EMAIL_TLS_CERTKEYFILE: at('client.key') };
  const own = {
    CODER_NOTIFICATIONS_EMAIL_TLS_CERTFILE: at('client.pem'),
    CODER_NOTIFICATIONS_EMAIL_TLS_CERTKEYFILE: at('client.key'),
  };
  try {
    assert.equal((await send(server, { ...tls, ...files })).secure, true);
    assert.equal((await send(server, { ...tls, ...own })).secure, true);
    await assert.rejects(send(server, tls));
  } finally {
    await server.close();
  }
});

test('gives up a rejected address, and tries a busy server again', async () => {
  const codes = [550, 451];
  const server = await startMailServer({
    onRcptTo(_address, _session, done) {
      done(Object.assign(new Error('no'), { responseCode: codes.shift() }));
    },
  });
  try {
    await assert.rejects(send(server, {}), PermanentFailure);
    await assert.rejects(send(server, {}), (err) => !(err instanceof PermanentFailure));
  } finally {
    await server.close();
  }
});

test('reads the address of the mail server', () => {
  const settings = (host: string) => smtpSettings(loadConfig({ env: { CODER_EMAIL_SMARTHOST: host } }).config);
  assert.deepEqual(
    ['mail.example.com:25', 'mail.example.com', '[::1]:2525'].map((host) => {
      const found = settings(host)!;
      return [found.host, found.port];
    }),
    [
      ['mail.example.com', 25],
      ['mail.example.com', 587],
      ['::1', 2525],
    ],
  );
  assert.equal(settings(''), undefined);
});
