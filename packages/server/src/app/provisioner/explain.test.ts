import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ProvisionerExplanation } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { insertDaemon, tagged } from '../job/testing/daemons.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('explains which daemons can run a template and why others cannot', async () => {
  const template = await createTestTemplate(server, 'explained', {
    richParameters: [{ name: 'a', type: 'number', mutable: true, required: true }],
  });
  const own = await insertPerson(server, 'explainer');
  const plain = await insertDaemon(server, 'plain', tagged({}));
  await server.services
    .sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '5 minutes' WHERE id = ${plain.id}`;
  await insertDaemon(server, 'small', tagged({ zone: 'a', size: 'small' }));
  await insertDaemon(server, 'of-someone', { scope: 'user', owner: crypto.randomUUID() });
  await insertDaemon(server, 'mine-alone', { scope: 'user', owner: own.id });
  const path = `/templateversions/${template.active_version_id}/provisioners`;
  const { body } = await server.api<ProvisionerExplanation>('GET', path);
  assert.deepEqual(body.tags, tagged({}));
  const byName = new Map(body.daemons.map((one) => [one.name, one]));
  assert.equal(body.daemons[0]!.name, 'plain');
  assert.deepEqual([body.matched_provisioners.count, body.matched_provisioners.available], [1, 0]);
  assert.equal(byName.get('plain')!.can_run, true);
  assert.equal(byName.get('small')!.why, 'it has tags, so it takes only jobs with tags');
  assert.ok(byName.has('of-someone'));
  assert.equal((await server.api('GET', `${path}?parameters=[1]`)).status, 400);
  const withParameters = async (given: object) =>
    (await server.api('GET', `${path}?parameters=${encodeURIComponent(JSON.stringify(given))}`)).status;
  assert.equal(await withParameters({ a: 'b' }), 200, 'the form checks dynamic parameters');
  const classic = { use_classic_parameter_flow: true };
  assert.equal((await server.api('PATCH', `/templates/${template.id}`, { body: classic })).status, 200);
  assert.equal(await withParameters({ a: '1' }), 200);
  assert.equal(await withParameters({ a: 'b' }), 400);
  assert.equal(await withParameters({ b: '1' }), 400);
  const seen = (await server.api<ProvisionerExplanation>('GET', path, { token: own.token })).body.daemons;
  assert.ok(seen.some(({ name }) => name === 'mine-alone'));
  assert.ok(!seen.some(({ name }) => name === 'of-someone'), 'another person’s daemon is shown');
});
