import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire';
import type { BuiltinDaemonsInput } from '../background/daemons-process.ts';
import { directoryHash } from '../postgres/place.ts';

// replaces the daemons' process, and writes its input to its working directory
const SPY = `const fs = require('node:fs'); fs.writeFileSync('input.part', fs.readFileSync(0));
fs.renameSync('input.part', 'input.json'); setInterval(() => {}, 1000)`;

const start = () =>
  startTestServer({ env: { CODER_PROVISIONER_DAEMONS: '1' }, daemonCommand: [process.execPath, '-e', SPY] });

function folderOf(server: TestServer): string {
  if (process.getuid?.() !== 0) return join(server.configDir, 'provisioners');
  return join('/var/lib/coder/provisioners', directoryHash(server.configDir), 'daemons');
}

async function inputOf(server: TestServer): Promise<BuiltinDaemonsInput> {
  const text = await eventually('the daemons have their input', () => {
    try {
      return readFileSync(join(folderOf(server), 'input.json'), 'utf8');
    } catch {
      return undefined;
    }
  });
  return JSON.parse(text) as BuiltinDaemonsInput;
}

let server: TestServer;
let input: BuiltinDaemonsInput;
before(async () => {
  server = await start();
  input = await inputOf(server);
});
after(() => server.stop());

/** The status of the answer to a daemon that joins with this secret. */
async function joins(given: {
  secret: string;
  socketPath?: string;
  query?: string;
  headers?: Record<string, string>;
  organization?: string;
}): Promise<number> {
  const path = `/api/v2/organizations/${given.organization ?? 'default'}/provisionerdaemons/serve`;
  try {
    const { connection } = await dialWebSocket(
      `${server.url}${path}?version=1.8&provisioner=terraform&name=x${given.query ?? ''}`,
      {
        headers: { 'Platform-Installation-Secret': given.secret, ...given.headers },
        socketPath: given.socketPath,
      },
    );
    connection.close();
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
