import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { Lifecycle_State } from '@ropewalk/wire/proto/agent';
import type { Activity } from '../activity.ts';
import { type RunningAgent, runAgent } from '../agent.ts';
import type { Lifecycle } from '../lifecycle.ts';
import { startTestServer, type TestServer, TOKEN } from '../testing/server.ts';
import type { Workspace } from '../workspace.ts';
import { ptyService } from './pty.ts';

/** Collects what a viewer of a terminal receives. */
function watch(stream: Duplex) {
  const view = { stream, text: '', ended: false };
  stream.on('data', (chunk: Buffer) => {
    view.text += chunk.toString('latin1');
  });
  stream.on('error', () => {});
  stream.on('end', () => stream.end());
  stream.on('close', () => {
    view.ended = true;
  });
  return view;
}
function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
const type = (stream: Duplex, input: object) => stream.write(JSON.stringify(input));

describe('a reconnecting terminal', () => {
  let server: TestServer;
  let agent: RunningAgent;
  const dir = mkdtempSync(join(tmpdir(), 'agent-pty-'));
  before(async () => {
    server = await startTestServer();
    // A shell that gets a hang-up would write its history while the directory is removed.
    server.manifest = { directory: dir, environmentVariables: { PS1: '$ ', GREETING: 'hello', HISTFILE: '' } };
    const env = { PATH: process.env['PATH'], HOME: dir, SHELL: '/bin/sh' };
    agent = runAgent({ url: server.url, token: TOKEN, version: 'v0.1.0', log: silentLogger, scriptDataDir: dir, env });
    await server.until('ready', () => server.received.lifecycles.includes('READY'));
  });
  after(async () => {
    await agent.stop();
    await server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const attach = async (more: Record<string, unknown> = {}) =>
    watch(await server.tunnel('pty', { id: crypto.randomUUID(), user: 'ann', width: 90, height: 30, ...more }));

  test('a login shell as over SSH: directory, environment and size; its end ends the stream', async () => {
    const view = await attach();
    type(view.stream, { data: 'stty size; pwd; echo "$SSH_CONNECTION" $GREETING-$CODER_WORKSPACE_AGENT_NAME\r' });
    await server.until('the shell answers', () => view.text.includes('hello-main'));
    assert.match(view.text, /30 90/);
    assert.match(view.text, /0\.0\.0\.0 0 0\.0\.0\.0 0 hello-main/);
    assert.ok(view.text.includes(dir));
    type(view.stream, { height: 40, width: 100 });
    type(view.stream, { data: 'stty size; exit\r' });
    await server.until('the shell ended', () => view.ended);
    assert.match(view.text, /40 100/);
  });

  test('accepts input that is cut anywhere or comes in one piece', async () => {
    const view = await attach({ command: 'cat' });
    const bytes = Buffer.from(
      `${JSON.stringify({ data: 'é"{}\\\r' })}\n {"height":5}${JSON.stringify({ data: 'zwei\r' })}`,
    );
    for (const byte of bytes) view.stream.write(Buffer.from([byte]));
    await server.until('both lines are back', () => view.text.split('zwei').length > 2);
    assert.ok(Buffer.from(view.text, 'latin1').includes('é"{}\\'));
    view.stream.end();
  });

  test('replays scrollback to a returning viewer, without terminal queries', async () => {
    const id = crypto.randomUUID();
    const first = await attach({ id });
    type(first.stream, { data: "printf 'a\\033[6nb\\033[c-mark\\n'\r" });
    await server.until('output', () => first.text.includes('\x1b[c-mark'));
    first.stream.destroy();
    const second = await attach({ id });
    await server.until('the past', () => second.text.includes('ab-mark'));
    type(second.stream, { data: 'exit\r' });
    await server.until('the end', () => second.ended);
    const third = await attach({ id });
    type(third.stream, { data: 'echo ne""w\r' });
    await server.until('a new shell', () => third.text.includes('new'));
    assert.doesNotMatch(third.text, /mark/);
    third.stream.destroy();
  });

  test('background processes do not hold the terminal, and the agent abandons programs that ignore its end', async () => {
    const view = await attach({ command: 'trap "" HUP; sleep 30 & echo $!; exit 0' });
    // long before the one in the background ends
    await server.until('the program ended', () => view.ended, 20_000);
    process.kill(Number(view.text.trim()), 'SIGKILL');
  });

  test('viewers share a terminal, but another user with the same id gets their own', async () => {
    const id = crypto.randomUUID();
    const one = await attach({ id });
    const two = await attach({ id, width: 70 });
    const stranger = await attach({ id, user: 'eve' });
    type(two.stream, { data: 'echo sha""red; stty size\r' });
    await server.until('both see it', () => one.text.includes('30 70') && two.text.includes('30 70'));
    type(one.stream, { data: 'stty size\r' });
    await server.until('the size of the viewer who types', () => two.text.includes('30 90'));
    assert.doesNotMatch(stranger.text, /shared/);
    for (const { stream } of [one, two, stranger]) stream.destroy();
  });

  test('limits the number of viewers', async () => {
    const id = crypto.randomUUID();
    const all = [await attach({ id })];
    while (all.length < 32) all.push(await attach({ id }));
    await assert.rejects(attach({ id }), /open in 32 windows, which is the limit/);
    for (const { stream } of all) stream.destroy();
  });

  test('a viewer that reads nothing holds nobody up and learns what it missed', async () => {
    const id = crypto.randomUUID();
    const quick = await attach({
      id,
      command: 'read x; head -c 20000000 /dev/zero | tr "\\0" x; echo; echo do""ne; read x',
    });
    const slow = await attach({ id, command: '' });
    slow.stream.pause();
    type(quick.stream, { data: '\r' });
    await server.until('all output arrived', () => quick.text.includes('done'));
    slow.stream.resume();
    await server.until(
      'the slow viewer catches up',
      () => slow.text.includes('output was skipped') && slow.text.includes('done'),
    );
    assert.ok(slow.text.length < 8_000_000, `${slow.text.length} bytes`);
    quick.stream.destroy();
    slow.stream.destroy();
  });

  test('a shell visibly waits for startup scripts, and any key skips the wait', async () => {
    const other = await startTestServer();
    const gate = join(dir, 'go');
    const script = {
      id: Buffer.alloc(16, 1),
      logSourceId: Buffer.alloc(16, 2),
      runOnStart: true,
      startBlocksLogin: true,
    };
    const wait = `until [ -e ${gate} ]; do sleep 0.05; done; exit 3`;
    other.manifest = { directory: dir, scripts: [{ ...script, script: wait }] };
    const env = { PATH: process.env['PATH'], HOME: dir, SHELL: '/bin/sh' };
    const starting = runAgent({
      url: other.url,
      token: TOKEN,
      version: 'v0.1.0',
      log: silentLogger,
      scriptDataDir: dir,
      env,
    });
    await other.until('starting', () => other.received.lifecycles.includes('STARTING'));
    const open = async (more: object) =>
      watch(await other.tunnel('pty', { id: crypto.randomUUID(), user: 'ann', command: 'stty size; cat', ...more }));
    const patient = await open({ wait: true, width: 81, height: 20 });
    const hasty = await open({ wait: true });
    const other2 = await open({});
    await other.until("the scripts' end", () => /Press any key/.test(patient.text) && /Press any key/.test(hasty.text));
    await other.until('without waiting, a warning', () => /scripts are still running\. [\s\S]*24 80/.test(other2.text));
    type(patient.stream, { height: 33, width: 99 });
    type(hasty.stream, { data: 'x' });
    await other.until('the viewer who skipped has a shell', () => hasty.text.includes('24 80'));
    assert.doesNotMatch(patient.text, /24 80|33 99/);
    writeFileSync(gate, '');
    await other.until('the viewer who waited has one, too, in their size', () =>
      /script failed\. [\s\S]*33 99/.test(patient.text),
    );
    await starting.stop();
    await other.close();
  });

  test('ends a terminal without viewers after its idle time, and limits how many are open', async () => {
    const activity = { begin: () => () => {}, count: () => {} } as unknown as Activity;
    const service = ptyService(activity, { state: Lifecycle_State.READY } as Lifecycle, { idleMs: 50, most: 1 });
    service.setWorkspace({
      session: () => ({ file: '/bin/sh', args: ['-c', 'echo $$; exec sleep 300'], env: {}, cwd: dir }),
    } as unknown as Workspace);
    const open = async (id: string) => {
      const [near, far] = duplexPair();
      const serving = service.serve({
        request: { service: 'pty', id, user: 'ann' },
        accept: () => far,
        refuse: () => {},
      });
      await Promise.race([serving, new Promise((resolve) => near.once('readable', resolve))]);
      return near;
    };
    const near = await open(crypto.randomUUID());
    const pid = Number(near.read());
    await assert.rejects(open(crypto.randomUUID()), /has reached its limit of 1 open terminals/);
    near.end();
    near.resume();
    await server.until('its shell has ended', () => !alive(pid));
    // The shell is gone a moment before the service notices.
    let next = 0;
    await server.until('a free place', async () => {
      const again = await open(crypto.randomUUID()).catch(() => undefined);
      next = Number(again?.read() ?? 0);
      return next > 0;
    });
    service.close();
    await server.until('it is gone with the agent', () => !alive(next));
  });

  test('rejects invalid requests and input', async () => {
    await assert.rejects(attach({ id: 'x' }), /must be a UUID/);
    await assert.rejects(attach({ user: '' }), /"user" must not be empty/);
    const view = await attach();
    view.stream.write('not json');
    await server.until('the rejection', () => view.ended);
    await server.until('the report', () =>
      server.received.connections.some(({ reason }) => /Invalid terminal input/.test(reason ?? '')),
    );
  });
});
