import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  coderOutput,
  ensureExecutable,
  eventually,
  PERSON,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
  startProgram,
  tokenOf,
} from './harness.ts';

// A workspace that a person shares with another, who connects to it until it is taken back.

/** How soon a session ends after its workspace is taken back. */
const TAKEN_BACK_MS = 5_000;

let server: ServerProcess;
let dir: string;
/** The environment of the person who connects to it. */
let guest: NodeJS.ProcessEnv;

const run = (env: NodeJS.ProcessEnv, ...args: string[]) => coderOutput(args, { env, cwd: dir });

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-sharing-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  server = await startCoderServer();
  await startFirstWorkspace(server, dir);
  const password = 'another long password';
  await run(server.env, 'users', 'create', '-u', 'guest', '-e', 'guest@example.com', '-p', password);
  guest = { ...server.env, CODER_SESSION_TOKEN: await tokenOf(server, { email: 'guest@example.com', password }) };
});
after(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('a person connects to a shared workspace, and is out within five seconds after it is taken back', async () => {
  const target = `${PERSON.username}/dev`;
  const connect = () =>
    startProgram(PROGRAM, ['ssh', target, '--', 'echo $$; while :; do echo x; sleep 0.05; done'], {
      env: guest,
      cwd: dir,
    });
  const before = connect();
  assert.notEqual(await before.ended, 0, 'not shared yet');
  assert.match(before.err(), /not found/);
  await run(server.env, 'sharing', 'add', 'dev', '--user', 'guest');
  assert.match(await run(guest, 'list', '--search', 'shared_with_user:me'), /admin\/dev/);
  const session = connect();
  await eventually('it runs', async () => session.out().includes('x'));
  const pid = Number.parseInt(session.out(), 10);
  assert.ok(existsSync(`/proc/${pid}`));
  await run(server.env, 'sharing', 'remove', 'dev', '--user', 'guest');
  const takenBack = performance.now();
  assert.notEqual(await session.ended, 0);
  await eventually('its program has ended', async () => !existsSync(`/proc/${pid}`), TAKEN_BACK_MS);
  const took = performance.now() - takenBack;
  assert.ok(took < TAKEN_BACK_MS, `it took ${took} ms`);
  const again = connect();
  assert.notEqual(await again.ended, 0);
  assert.match(again.err(), /not found/);
  // the owner is not affected
  assert.equal((await run(server.env, 'ssh', 'dev', '--', 'echo owner')).trim(), 'owner');
});
