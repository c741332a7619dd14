import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { concerns } from './events.ts';
import { createServers, type Servers } from './server.ts';

const TOKEN = 'the-operators-token-which-is-long-enough';

let server: TestServer;
let servers: Servers;
let wakes = 0;
let changes = 0;
before(async () => {
  server = await startTestServer({ env: { CODER_OPERATOR_TOKEN: TOKEN } });
  // only the stream of changes can be the reason of another poll in this test
  servers = createServers({ pollMs: 3_600_000, log: silentLogger, wake: () => wakes++, changed: () => changes++ });
});
after(async () => {
  await servers?.stop();
  await server?.stop();
});

test('a new job, a new key and a deleted one wake the provisioners that they concern', async () => {
  const target = { url: server.url, token: TOKEN, organization: 'default' };
  const look = async () => (await servers.look('ns/name', target)).state;
  const made = (await look()).keys.length;
  const { job } = await pendingVersion(server, {});
  await eventually('the job', async () => (await look()).pending.some(({ id }) => id === job.id));
  assert.ok(changes > 0, 'the demand may have changed');
  const path = '/organizations/default/provisionerkeys';
  await server.api('POST', path, { body: { name: 'rack' } });
  await eventually('the key', async () => (await look()).keys.length === made + 1);
  const before = wakes;
  await server.api('DELETE', `${path}/rack`);
  await eventually('no key', async () => (await look()).keys.length === made);
  assert.ok(wakes > before && before > 0);
});

const BLOCKS: [what: string, block: string, concerned: boolean][] = [
  ['the begin of a stream', 'event: hello\nid: a-1\ndata: {}', true],
  ['a gap', 'event: reset\nid: a-1\ndata: {}', true],
  ['a job', 'event: change\nid: a-2\ndata: {"kind":"job","id":"x"}', true],
  ['a daemon', 'event: change\nid: a-2\ndata: {"kind":"provisioner","id":"x"}', true],
  ['another object', 'event: change\nid: a-3\ndata: {"kind":"user","id":"x"}', false],
  ['a sign of life', ': ping', false],
];
for (const [what, block, concerned] of BLOCKS)
  test(`${what} ${concerned ? 'brings the next poll forward' : 'does not'}`, () =>
    assert.equal(concerns(block), concerned));
