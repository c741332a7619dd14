import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { loadConfig } from '../config/load.ts';
import { startServer } from '../main.ts';
import { connect } from './connect.ts';
import { passwordIn, passwordSource } from './password.ts';

/** Asks each client for its password in plain text, as RDS does, and rejects it. */
async function startAsking() {
  const passwords: string[] = [];
  const server = createServer((socket) => {
    let isGreeted = false;
    socket.on('error', () => {});
    socket.on('data', (data: Buffer) => {
      if (!isGreeted) {
        isGreeted = true;
        socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
        return;
      }
      passwords.push(data.subarray(5, -1).toString());
      const text = Buffer.from('SFATAL\0C28P01\0Mpassword authentication failed\0\0');
      const head = Buffer.from([0x45, 0, 0, 0, 0]);
      head.writeUInt32BE(text.length + 4, 1);
      socket.end(Buffer.concat([head, text]));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { passwords, port: (server.address() as AddressInfo).port, close: () => server.close() };
}

const lines: string[] = [];
const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });

const AWS = {
  AWS_ACCESS_KEY_ID: 'AKIAIOSFODNN7EXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  AWS_REGION: 'eu-central-1',
};

/** Signature version 4 of a presigned GET without headers but the host, as AWS documents it. */
function signatureOf(token: URL): string {
  const query = [...token.searchParams]
    .filter(([name]) => name !== 'X-Amz-Signature')
    .map((pair) => pair.map(encodeURIComponent).join('='))
    .sort()
    .join('&');
  const empty = createHash('sha256').update('').digest('hex');
  const request = ['GET', '/', query, `host:${token.host}`, '', 'host', empty].join('\n');
  const date = token.searchParams.get('X-Amz-Date')!;
  const scope = [date.slice(0, 8), AWS.AWS_REGION, 'rds-db', 'aws4_request'];
  const hashed = createHash('sha256').update(request).digest('hex');
  const text = ['AWS4-HMAC-SHA256', date, scope.join('/'), hashed].join('\n');
  const key = scope.reduce<string | Buffer>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    `AWS4${AWS.AWS_SECRET_ACCESS_KEY}`,
  );
  return createHmac('sha256', key).update(text).digest('hex');
}

test('a server signs in to its database with a token of AWS', async (t) => {
  const database = await startAsking();
  Object.assign(process.env, AWS);
  const dir = mkdtempSync(join(tmpdir(), 'aws-'));
  t.after(() => {
    for (const name of Object.keys(AWS)) delete process.env[name];
    rmSync(dir, { recursive: true, force: true });
    database.close();
  });
  const url = `postgres://some%40user@127.0.0.1:${database.port}/coder`;
  const start = (postgresUrl: string) =>
    startServer({
      ...loadConfig({ env: { CODER_PG_CONNECTION_URL: postgresUrl, CODER_PG_AUTH: 'awsiamrds' } }),
      configDir: dir,
      log,
      daemonCommand: [],
      findBinary: async () => undefined,
      env: {},
    });
  await assert.rejects(start(url), /password authentication failed/);
  const token = new URL(`https://${database.passwords[0]}`);
  assert.equal(token.host, `127.0.0.1:${database.port}`);
  assert.equal(token.searchParams.get('Action'), 'connect');
  assert.equal(token.searchParams.get('DBUser'), 'some@user');
  assert.equal(token.searchParams.get('X-Amz-Expires'), '900');
  assert.match(token.searchParams.get('X-Amz-Credential')!, /^AKIAIOSFODNN7EXAMPLE\/\d{8}\/eu-central-1\/rds-db\//);
  assert.equal(token.searchParams.get('X-Amz-Signature'), signatureOf(token));
  await assert.rejects(start(''), /awsiamrds needs --postgres-url/);
});

test('reads the password from a file again for each connection', async (t) => {
  const database = await startAsking();
  const dir = mkdtempSync(join(tmpdir(), 'passfile-'));
  t.after(() => {
    rmSync(dir, { recursive: true, force: true });
    database.close();
  });
  const path = join(dir, 'pgpass');
  const url = `postgres://me@127.0.0.1:${database.port}/coder?passfile=${encodeURIComponent(path)}`;
  const password = (await passwordSource(url, 'password', log))!;
  const sql = connect(url, { max: 1, password });
  t.after(() => sql.end());
  for (const secret of ['first', 'a:sec\\ond']) {
    writeFileSync(path, `# of another program\n*:*:*:me:${secret.replaceAll(/[\\:]/g, '\\$&')}\n`);
    await assert.rejects(sql`SELECT 1`, /password authentication failed/);
  }
  rmSync(path);
  await assert.rejects(sql`SELECT 1`, /password authentication failed/);
  assert.deepEqual(database.passwords, ['first', 'a:sec\\ond', '']);
  assert.match(lines.at(-1)!, /could not get a password for the database err=.*ENOENT/);
  assert.equal(await passwordSource('postgres://me:secret@127.0.0.1/coder', 'password', log), undefined);
});

test('takes the first line of a password file that fits', () => {
  const text = 'other:5432:coder:me:no\ndb:5432:*:you:no\nshort:line\ndb:*:coder:me:yes\n*:*:*:*:late\n';
  assert.equal(passwordIn(text, ['db', '5432', 'coder', 'me']), 'yes');
  assert.equal(passwordIn(text, ['x', '1', 'y', 'z']), 'late');
  assert.equal(passwordIn('db:5432:coder:me:p', ['db', '5433', 'coder', 'me']), undefined);
});
