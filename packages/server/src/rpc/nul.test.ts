import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer } from '@platform/testkit';
import { createDrpcClient } from '@platform/wire/drpc';
import { ProvisionerDaemon } from '@platform/wire/proto/provisionerd';
import { byteStream, dialWebSocket } from '@platform/wire/websocket';
import { YamuxSession } from '@platform/wire/yamux';

const PSK = 'nul test key';
let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
});
after(() => server.stop());

test('a verdict that holds NUL where the database cannot keep it is rejected with what to do', async () => {
  const url = new URL(`${server.url}/api/v2/organizations/default/provisionerdaemons/serve`);
  url.search = 'version=1.8&provisioner=terraform&name=nul';
  const { connection } = await dialWebSocket(url, { headers: { 'Coder-Provisioner-Daemon-PSK': PSK } });
  const session = new YamuxSession(byteStream(connection), { role: 'client' });
  const daemon = createDrpcClient(ProvisionerDaemon, () => session.openStream());
  const acquire = daemon.acquireJobWithCancel();
  await pendingVersion(server);
  const { jobId } = (await acquire.receive())!;
  const plan = Buffer.from('{"planned_values":{"outputs":{"a":{"value":"\\u0000"}}}}');
  await assert.rejects(
    daemon.completeJob({ jobId, type: { case: 'templateImport', value: { plan } } }),
    /holds a NUL character .* cannot be stored\. Remove it/,
  );
  await session.close();
});
