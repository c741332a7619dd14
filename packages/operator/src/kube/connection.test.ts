import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { mountFiles } from '../testing/mounted-files.ts';
import { inClusterConnection } from './connection.ts';

const ENV = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' };

test('in a pod, a request has the token and the certificate authority that are mounted now', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'connection-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const mounted = mountFiles(join(dir, 'account'), { token: 'first\n', 'ca.crt': 'one', namespace: 'coder\n' });
  const connection = inClusterConnection(ENV, mounted.folder);
  const seen = async () => {
    const { headers, ca } = await connection.options();
    return { ...headers, ca: String(ca) };
  };
  assert.equal(connection.namespace, 'coder');
  assert.deepEqual(await seen(), { Authorization: 'Bearer first', ca: 'one' });
  mounted.replace({ token: 'second\n', 'ca.crt': 'two', namespace: 'coder\n' });
  assert.deepEqual(await seen(), { Authorization: 'Bearer second', ca: 'two' });
});
