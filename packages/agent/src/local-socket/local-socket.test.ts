import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { createDrpcClient, type DrpcClient } from '@ropewalk/wire/drpc';
import { AgentSocket } from '@ropewalk/wire/proto/agentsocket';
import { startLocalSocket } from './server.ts';
import { createUnits } from './units.ts';

const dir = mkdtempSync(join(tmpdir(), 'ls-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const clientOf = (path: string): DrpcClient<typeof AgentSocket> =>
  createDrpcClient(
    AgentSocket,
    () =>
      new Promise((resolve, reject) => {
        const socket = connect(path, () => resolve(socket)).once('error', reject);
      }),
  );
const open = async (wanted: string) => {
  const socket = startLocalSocket({ wanted, log: silentLogger });
  const path = await socket.path;
  assert.ok(path, 'it listens');
  return { socket, path, agent: clientOf(path) };
};

test('starts a unit only when all that it wants is completed', () => {
  const units = createUnits();
  units.want('editor', 'clone');
  units.want('editor', 'install');
  assert.deepEqual([units.status('editor'), units.status('clone'), units.isReady('editor')], ['pending', '', false]);
  assert.throws(() => units.start('editor'), /"editor" is not ready/);
  units.start('clone');
  assert.throws(() => units.start('clone'), /already started/);
  units.complete('clone');
  assert.throws(() => units.complete('clone'), /already completed/);
  assert.throws(() => units.complete('install'), /has not started/);
  units.start('install');
  assert.equal(units.isReady('editor'), false);
  units.complete('install');
  units.start('editor');
  assert.deepEqual(units.list(), [
    { unit: 'editor', status: 'started', isReady: true },
    { unit: 'clone', status: 'completed', isReady: true },
    { unit: 'install', status: 'completed', isReady: true },
  ]);
});

test('rejects cycles, names that are empty or too long, and more units than fit', () => {
  const units = createUnits();
  assert.throws(() => units.want('a', 'a'), /cycle/);
  units.want('a', 'b');
  units.want('b', 'c');
  assert.throws(() => units.want('c', 'a'), /cycle/);
  for (const name of ['', 'x'.repeat(257)]) {
    assert.throws(() => units.start(name), /name of a unit/);
    assert.throws(() => units.want('a', name), /name of a unit/);
    assert.throws(() => units.isReady(name), /name of a unit/);
  }
  for (let n = units.list().length; n < 1_000; n++) units.start(`unit-${n}`);
  assert.throws(() => units.start('one too many'), /up to 1000 units/);
});

test('serves the calls at the wanted path, for its own user only', async () => {
  const wanted = join(dir, 'wanted.sock');
  const { socket, path, agent } = await open(wanted);
  assert.equal(path, wanted);
  const isScratch = (name: string) => name.startsWith('agent-socket-');
  assert.deepEqual(readdirSync(tmpdir()).filter(isScratch), [], 'a killed agent leaves no folder');
  if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o600);
  await agent.ping({});
  await agent.syncWant({ unit: 'b', dependsOn: 'a' });
  await assert.rejects(agent.syncStart({ unit: 'b' }), /not ready/);
  const { status, isReady, dependencies } = await agent.syncStatus({ unit: 'b' });
  assert.deepEqual([status, isReady], ['pending', false]);
  assert.deepEqual(
    dependencies.map(({ dependsOn, requiredStatus, currentStatus, isSatisfied }) => [
      dependsOn,
      requiredStatus,
      currentStatus,
      isSatisfied,
    ]),
    [['a', 'completed', '', false]],
  );
  await agent.syncStart({ unit: 'a' });
  await agent.syncComplete({ unit: 'a' });
  assert.equal((await agent.syncReady({ unit: 'b' })).ready, true);
  await assert.rejects(agent.updateAppStatus({ slug: 'x' }), /not connected to the server/);
  await socket.close();
  assert.equal(existsSync(wanted), false, 'the socket is removed');
  assert.deepEqual(readdirSync(tmpdir()).filter(isScratch), []);
});

test('replaces a socket that a killed agent left, and leaves one in use alone', async () => {
  const wanted = join(dir, 'shared.sock');
  const first = await open(wanted);
  const second = await open(wanted);
  assert.notEqual(second.path, wanted);
  await second.agent.syncStart({ unit: 'only here' });
  assert.deepEqual((await first.agent.syncList({})).units, []);
  await second.socket.close();
  await first.agent.ping({});
  await first.socket.close();

  // a file without a listener, as after kill -9: a rename keeps the server from removing it
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(dir, 'left'), resolve));
  renameSync(join(dir, 'left'), wanted);
  await new Promise((resolve) => server.close(resolve));
  const third = await open(wanted);
  assert.equal(third.path, wanted);
  await third.agent.ping({});
  await third.socket.close();
});

test("never replaces another program's file", async () => {
  const wanted = join(dir, 'file');
  writeFileSync(wanted, 'mine');
  const { socket, path, agent } = await open(wanted);
  assert.notEqual(path, wanted);
  await agent.ping({});
  await socket.close();
  assert.equal(statSync(wanted).size, 4);
});
