import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import {
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';
import { openTerminal } from '../../testing/terminal.ts';

let server: TestServer;
let dev: TestWorkspace;
let env: Record<string, string>;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev');
  env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const rpty = (...args: string[]) => invoke(['exp', 'rpty', ...args], env);

test('runs a command in a terminal of the workspace', async () => {
  const done = await rpty('dev', '--', 'test -t 0 && echo "in a terminal: $((6 * 7))"');
  assert.deepEqual([done.code, done.stderr], [0, '']);
  assert.match(done.stdout, /^in a terminal: 42\r?\n$/);
  const piped = await invoke(['exp', 'rpty', 'dev'], env, 'echo $((2 + 3))-ok; exit\n');
  assert.match(piped.stdout, /5-ok/);
});

test('continues a terminal that another connection left, with its size', async () => {
  const id = randomUUID();
  const first = openTerminal(['exp', 'rpty', 'dev', '-r', id], { ...env, HOME: dev.home }, 90);
  first.write('left=behind; stty size\n');
  await eventually('the first one shows its size', async () => /^40 90\r?$/m.test(first.raw()));
  first.resize(70);
  await eventually('the new size', async () => {
    first.write('stty size\n');
    return /^40 70\r?$/m.test(first.raw());
  });
  first.kill();
  await first.exited;
  const second = openTerminal(['exp', 'rpty', 'dev', '-r', id], { ...env, HOME: dev.home });
  second.write('echo "was $left"; exit\n');
  assert.equal(await second.exited, 0);
  assert.match(second.raw(), /^was behind\r?$/m);
});

test('rejects wrong flags', async () => {
  for (const [args, message] of [
    [['dev', '-r', 'x'], /Invalid --reconnect "x": use a UUID/],
    [['dev', '-u', 'root'], /--container-user requires --container/],
    [['none'], /Workspace "none" not found/],
  ] as const) {
    const { code, stdout, stderr } = await rpty(...args);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, message);
  }
});
