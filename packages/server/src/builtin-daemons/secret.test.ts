import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';
import { byteStream, createDrpcClient, dialWebSocket, WebSocketDialError, YamuxSession } from '@ropewalk/wire';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { directoryHash } from '../postgres/place.ts';
import type { BuiltinDaemonsInput, BuiltinDaemonsUpdate } from './daemons-process.ts';

// replaces the daemons' process, and writes the first and the newest line of its input to its working directory
const SPY = `const fs = require('node:fs'); let name = 'input.json';
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
fs.writeFileSync('part', line); fs.renameSync('part', name); name = 'update.json'; });`;

const start = (options: { joins?: TestServer } = {}) =>
  startTestServer({
    env: { CODER_PROVISIONER_DAEMONS: '1' },
    daemonCommand: [process.execPath, '-e', SPY],
    ...options,
  });

function folderOf(server: TestServer): string {
  if (process.getuid?.() !== 0) return join(server.configDir, 'provisioners');
  return join('/var/lib/coder/provisioners', directoryHash(server.configDir), 'daemons');
}

/** What a file of the spy has, once it is accepted. */
async function read<T>(server: TestServer, name: string, accept: (value: T) => boolean = () => true): Promise<T> {
  return eventually(`the daemons have ${name}`, () => {
    try {
      const value = JSON.parse(readFileSync(join(folderOf(server), name), 'utf8')) as T;
      return accept(value) ? value : undefined;
    } catch {
      return undefined;
    }
  });
}

const inputOf = (server: TestServer) => read<BuiltinDaemonsInput>(server, 'input.json');

let server: TestServer;
let input: BuiltinDaemonsInput;
before(async () => {
  server = await start();
  input = await inputOf(server);
});
after(() => server.stop());

interface Join {
  url?: string;
  name?: string;
  secret?: string;
  socketPath?: string;
  query?: string;
  headers?: Record<string, string>;
  organization?: string;
}

async function dial({ url = server.url, name = 'x', secret, query = '', headers, socketPath, organization }: Join) {
  const path = `/api/v2/organizations/${organization ?? 'default'}/provisionerdaemons/serve`;
  const { connection } = await dialWebSocket(`${url}${path}?version=1.8&provisioner=terraform&name=${name}${query}`, {
    headers: { ...(secret === undefined ? {} : { 'Platform-Installation-Secret': secret }), ...headers },
    socketPath,
  });
  return connection;
}

/** The status of the answer to a daemon that joins with this credential. */
async function joins(given: Join): Promise<number> {
  try {
    (await dial(given)).close();
    return 101;
  } catch (err) {
    if (err instanceof WebSocketDialError && err.status !== undefined) return err.status;
    throw err;
  }
}

test("accepts the built-in daemons' secret over the server's own socket only", async () => {
  const { installationSecret: secret, socketPath } = input;
  assert.equal(await joins({ secret, socketPath }), 101);
  assert.equal(await joins({ secret }), 401, 'from an address of the machine');
  for (const header of ['X-Forwarded-For', 'X-Real-IP', 'Forwarded'])
    assert.equal(await joins({ secret, headers: { [header]: '127.0.0.1' } }), 401, header);
  assert.equal(await joins({ secret: `${secret.slice(1)}x`, socketPath }), 401, 'another secret');
});

test("allows no tags and no other organization with the built-in daemons' secret", async () => {
  const { installationSecret: secret, socketPath } = input;
  for (const query of ['&tag=env=prod', '&tag=scope=user', '&tag=scope=organization', '&tag=owner='])
    assert.equal(await joins({ secret, socketPath, query }), 403, query);
  const made = await server.api<{ id: string }>('POST', '/organizations', { body: { name: 'other' } });
  if (made.status === 201) assert.equal(await joins({ secret, socketPath, organization: 'other' }), 403);
});

test('serves only daemons on its own socket, and makes a new secret at every start that is stored nowhere', async () => {
  const other = await start();
  try {
    const again = await inputOf(other);
    assert.notEqual(again.installationSecret, input.installationSecret);
    const rows = await other.services.sql<{ value: string }[]>`SELECT value FROM site_config`;
    assert.ok(rows.length > 0 && rows.every(({ value }) => !value.includes(again.installationSecret)));
    assert.equal(await joins({ secret: again.installationSecret, socketPath: input.socketPath }), 401);
  } finally {
    await other.stop();
  }
});

test('a ticket lets daemons of a server finish their jobs with another server, and nothing else', async () => {
  const other = await start({ joins: server });
  try {
    const { successors } = await read<BuiltinDaemonsUpdate>(
      server,
      'update.json',
      (update) => update.successors.urls.length > 0,
    );
    assert.deepEqual(successors.urls, [other.url, server.services.accessUrl]);
    const { url } = other;
    const name = `${input.namePrefix}-0`;
    const headers = { 'Platform-Daemon-Ticket': successors.ticket };
    const [replica, prefix, signature] = successors.ticket.split('.') as [string, string, string];
    const forged = [
      [replica, Buffer.from('y').toString('base64url'), signature],
      [other.services.replicaId, prefix, signature],
      [crypto.randomUUID(), prefix, signature],
      [replica, prefix, `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`],
      [replica, prefix],
      ['x', prefix, signature],
    ];
    for (const parts of forged)
      for (const named of [name, 'y-0'])
        assert.equal(
          await joins({ url, name: named, headers: { 'Platform-Daemon-Ticket': parts.join('.') } }),
          401,
          parts.join('.'),
        );
    for (const named of ['x', `${input.namePrefix}-0x`, `${input.namePrefix}-`])
      assert.equal(await joins({ url, name: named, headers }), 401, named);
    assert.equal(await joins({ url, name, headers, query: '&tag=env=prod' }), 403);

    const session = new YamuxSession(
      byteStream(await dial({ url, name, headers: { ...headers, 'Platform-Capabilities': 'job-control/1' } })),
      { role: 'client' },
    );
    try {
      const open = () => session.openStream();
      const control = createDrpcClient(JobControl, open);
      await assert.rejects(control.acquire().responses[Symbol.asyncIterator]().next(), /only finishes its jobs/);
      await assert.rejects(createDrpcClient(ProvisionerDaemon, open).acquireJob({}), /only finishes its jobs/);
      const unknown = await control.resume({ jobId: crypto.randomUUID(), epoch: 1n });
      assert.equal(unknown.accepted, false);
    } finally {
      await session.close();
    }
  } finally {
    await other.stop();
  }
});
