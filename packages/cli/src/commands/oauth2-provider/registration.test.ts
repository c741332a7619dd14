import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { OAuth2ProviderSettings } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('owners turn the registration of apps on and off', async () => {
  const run = (action: string, token = server.adminToken) =>
    invoke(['oauth2-provider', 'dcr', action], { CODER_URL: server.url, CODER_SESSION_TOKEN: token });
  const isOn = async () =>
    (await server.api<OAuth2ProviderSettings>('GET', '/oauth2-provider/settings')).body
      .dynamic_client_registration_enabled;
  assert.match((await run('enable')).stdout, /is now enabled/);
  assert.equal(await isOn(), true);
  const { token } = await insertPerson(server, 'ann');
  assert.notEqual((await run('disable', token)).code, 0);
  assert.equal(await isOn(), true);
  assert.match((await run('disable')).stdout, /is now disabled/);
  assert.equal(await isOn(), false);
});
