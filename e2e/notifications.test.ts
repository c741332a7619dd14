import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { type MailServer, startMailServer } from '@ropewalk/server/app/notification/testing/mail-server';
import { eventually, firstUser, type ServerProcess, startCoderServer } from './harness.ts';

let mail: MailServer;
let server: ServerProcess;
/** Resolves when a message is in the hands of the mail server, which does not accept it yet. */
let hanging: (() => void) | undefined;
before(async () => {
  mail = await startMailServer({
    onMailFrom(_address, _session, done) {
      if (!hanging) return done();
      // accepts nothing more on this connection
      hanging();
    },
  });
  server = await startCoderServer({
    env: {
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_EMAIL_SMARTHOST: `127.0.0.1:${mail.port}`,
      CODER_EMAIL_FROM: 'coder@example.com',
      // a mail server that answers later gets the mail twice
      CODER_NOTIFICATIONS_DISPATCH_TIMEOUT: '5s',
      CODER_NOTIFICATIONS_LEASE_PERIOD: '1s',
      CODER_NOTIFICATIONS_RETRY_INTERVAL: '1s',
    },
  });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  await mail?.close();
});

const inboxCount = async () =>
  (await server.api<{ notifications: unknown[] }>('GET', '/notifications/inbox')).body.notifications.length;

test('a killed server loses no notification, and none arrives twice', async () => {
  await server.api('POST', '/notifications/test');
  await eventually('the first mail', async () => mail.mails.length === 1);
  const began = new Promise<void>((resolve) => {
    hanging = resolve;
  });
  await server.api('POST', '/notifications/test');
  await server.api('POST', '/notifications/test');
  await began;
  await eventually('the inbox', async () => (await inboxCount()) === 3);
  const gone = once(server.child, 'exit');
  await server.kill();
  await gone;
  hanging = undefined;
  await server.restart();
  // the lease is at least twice as long as one attempt may take
  await eventually('the other mails', async () => mail.mails.length === 3, 90_000);
  assert.equal(new Set(mail.mails.map(({ text }) => /Message-ID: (\S+)/.exec(text)?.[1])).size, 3);
  assert.equal(await inboxCount(), 3);
});
