import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { duplexPair, PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type TestContext, test } from 'node:test';
import ssh2 from 'ssh2';
import type { Io } from '../framework/io.ts';
import { HostKeyGate } from './host-key-gate.ts';
import { forwardStdio } from './stdio.ts';

function newKey() {
  const pem = String(
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'sec1', format: 'pem' }),
  );
  const parsed = ssh2.utils.parseKey(pem);
  if (parsed instanceof Error) throw parsed;
  return { pem, blob: parsed.getPublicSSH().toString('base64') };
}

/** What ssh2's client gets to read through `carry` from ssh2's server, which holds `pem`. */
async function connectThrough(t: TestContext, pem: string, hostKey: string, kex?: string) {
  const server = new ssh2.Server({ hostKeys: [pem] }, (client) => {
    client.on('authentication', (auth) => auth.accept());
    client.on('error', () => {});
  });
  const [agentSide, near] = duplexPair();
  server.injectSocket(agentSide as never);
  const [clientSide, proxySide] = duplexPair();
  const io = { stdin: proxySide, stdout: proxySide, stderr: new PassThrough() } as unknown as Io;
  const carried = forwardStdio(io, near, hostKey);
  carried.catch(() => {});
  const client = new ssh2.Client();
  t.after(() => {
    client.destroy();
    for (const stream of [agentSide, near, clientSide, proxySide]) stream.destroy();
  });
  let keySeen = false;
  const ready = new Promise<string>((resolve) => {
    client.once('ready', () => resolve('ready'));
    client.on('error', () => resolve('error'));
    client.once('close', () => resolve('closed'));
  });
  client.connect({
    sock: clientSide as never,
    username: 'me',
    authHandler: ['none'],
    readyTimeout: 60_000,
    ...(kex ? { algorithms: { kex: [kex as 'ecdh-sha2-nistp256'] } } : {}),
    hostVerifier: () => {
      keySeen = true;
      return true;
    },
  });
  const outcome = await Promise.race([ready, carried.then(() => 'ended', String)]);
  return { outcome, keySeen: () => keySeen, carried };
}

const key = newKey();

for (const kex of ['curve25519-sha256', 'ecdh-sha2-nistp256', 'diffie-hellman-group14-sha256']) {
  test(`accepts the expected key with ${kex}`, async (t) => {
    assert.equal((await connectThrough(t, key.pem, key.blob, kex)).outcome, 'ready');
  });
}

test('blocks another key', async (t) => {
  const connection = await connectThrough(t, newKey().pem, key.blob);
  await assert.rejects(connection.carried, /SSH host key mismatch/);
  assert.notEqual(connection.outcome, 'ready');
  assert.equal(connection.keySeen(), false);
});

test('fails without a known key', async () => {
  const [one] = duplexPair();
  await assert.rejects(forwardStdio({} as Io, one, ''), /has no SSH host key/);
});

const packet = (type: number, ...fields: Buffer[]) => {
  const body = Buffer.concat([Buffer.from([4, type]), ...fields, Buffer.alloc(4)]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
};
const field = (data: Buffer) => {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(data.length);
  return Buffer.concat([head, data]);
};

async function through(...parts: Buffer[]): Promise<Buffer> {
  const gate = new HostKeyGate(key.blob);
  const got: Buffer[] = [];
  gate.on('data', (part: Buffer) => got.push(part));
  await pipeline(parts, gate);
  return Buffer.concat(got);
}

test('accepts packets in any pieces, and passes bytes unchanged after the exchange', async () => {
  const right = field(Buffer.from(key.blob, 'base64'));
  const all = Buffer.concat([
    Buffer.from('a notice\r\nSSH-2.0-x\r\n'),
    packet(20, Buffer.alloc(100)),
    packet(31, right, field(Buffer.alloc(32))),
    packet(21),
    Buffer.alloc(1000, 0xff),
  ]);
  assert.deepEqual(await through(...Array.from(all, (byte) => Buffer.from([byte]))), all);
  assert.deepEqual(await through(all), all);
});

test('rejects messages in another order', async () => {
  const version = Buffer.from('SSH-2.0-x\r\n');
  const right = field(Buffer.from(key.blob, 'base64'));
  const wrong = field(Buffer.from(newKey().blob, 'base64'));
  const differs = /SSH host key mismatch/;
  await assert.rejects(through(version, packet(21)), differs, 'no key at all');
  await assert.rejects(through(version, packet(31, right), packet(33, wrong), packet(21)), differs);
  await assert.rejects(through(version, packet(31, wrong), packet(31, right), packet(21)), differs);
  await assert.rejects(through(version, packet(31), packet(21)), differs);
  await assert.rejects(through(Buffer.alloc(70_000, 'x')), /did not answer as an SSH server/);
  await assert.rejects(through(version, Buffer.alloc(8, 0xff)), /did not answer as an SSH server/);
});
