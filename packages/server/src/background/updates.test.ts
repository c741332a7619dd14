import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { UpdateCheckResponse } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { eventually, startTestServer } from '@ropewalk/testkit';
import { isNewer } from '../app/values/release-version.ts';
import { updateCheckTask } from './updates.ts';

test('compares versions by their numbers', () => {
  for (const [newer, older] of [
    ['v1.2.10', 'v1.2.9'],
    ['2.0.0', 'v1.9.9'],
    ['v0.2.0', 'v0.1.0-devel+abc'],
  ] as const) {
    assert.ok(isNewer(newer, older));
    assert.ok(!isNewer(older, newer));
  }
  assert.ok(!isNewer('v1.2.3', '1.2.3'));
  assert.ok(!isNewer('latest', 'v1.2.3'));
});

test('finds a newer release, and logs it; the API page and the audit lines in the log are optional', async (t) => {
  let answer: [number, string] = [200, '{"tag_name": "v999.0.0", "html_url": "https://example.com/v999"}'];
  const releases = createServer((_request, response) => response.writeHead(answer[0]).end(answer[1]));
  releases.listen(0, '127.0.0.1');
  await once(releases, 'listening');
  t.after(() => releases.close());
  const lines: Record<string, unknown>[] = [];
  const server = await startTestServer({
    env: {
      CODER_UPDATE_CHECK: 'true',
      CODER_UPDATE_CHECK_URL: `http://127.0.0.1:${(releases.address() as AddressInfo).port}/latest`,
      CODER_SWAGGER_ENABLE: 'true',
    },
    log: createLogger({ level: 'debug', sinks: [{ format: 'json', write: (line) => lines.push(JSON.parse(line)) }] }),
  });
  t.after(() => server.stop());
  const look = async () => (await server.api<UpdateCheckResponse>('GET', '/updatecheck')).body;
  await eventually('the release is known', async () => !(await look()).current);
  assert.deepEqual(await look(), { current: false, version: 'v999.0.0', url: 'https://example.com/v999' });
  assert.ok(lines.some(({ msg, version }) => msg === 'a newer release is available' && version === 'v999.0.0'));

  const [task] = updateCheckTask(server.services);
  const run = () => task!.run(new AbortController().signal);
  for (const bad of [[500, '{}'] as const, [200, '{"tag_name": 7}'] as const, [200, '<html>'] as const]) {
    answer = [...bad];
    await assert.rejects(run());
    assert.equal((await look()).version, 'v999.0.0', 'the last good answer stays');
  }
  answer = [200, '{"tag_name": "v0.0.1", "html_url": "javascript:alert(1)"}'];
  await run();
  assert.deepEqual(await look(), { current: true, version: server.services.version, url: '' });
  const { config } = server.services;
  assert.throws(() => updateCheckTask({ ...server.services, config: { ...config, updateCheckUrl: '' } }), {
    message: /--update-check needs --update-check-url/,
  });

  for (const path of ['/swagger', '/swagger/index.html']) {
    const { status, headers } = await fetch(`${server.url}${path}`, { redirect: 'manual' });
    assert.deepEqual([status, headers.get('location')], [307, '/api-reference'], path);
  }

  const made = await server.api('POST', '/users/me/keys/tokens', { body: { token_name: 'ci' } });
  assert.equal(made.status, 201);
  const line = lines.find(({ msg, action, user }) => msg === 'audit' && action === 'create' && user)!;
  assert.deepEqual([line['action'], line['user'], line['level']], ['create', 'admin', 'debug']);
  assert.ok(!JSON.stringify(lines).includes((made.body as { key: string }).key));
});
