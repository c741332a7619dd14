import assert from 'node:assert/strict';
import { once } from 'node:events';
import { lstatSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { silentLogger } from '@ropewalk/kit';
import { ManifestSchema } from '@ropewalk/wire/proto/agent';
import type { Client } from 'ssh2';
import { createActivity } from '../activity.ts';
import { type RunningAgent, runAgent } from '../agent.ts';
import { deriveHostKey } from '../host-key.ts';
import { createAgentMetrics } from '../metrics.ts';
import { startTestServer, type TestServer, TOKEN } from '../testing/server.ts';
import { exec, outcome, run, sshClient } from '../testing/ssh-client.ts';
import { createWorkspace } from '../workspace.ts';
import { createSshServer } from './server.ts';

/** How ssh2 handles a message of the server. */
interface ClientHandlers {
  CHANNEL_REQUEST(
    protocol: unknown,
    channel: number,
    type: string,
    wantReply: boolean,
    data: number | { signal: string },
  ): void;
}

describe('SSH through the tunnel', () => {
  let server: TestServer;
  let agent: RunningAgent;
  let client: Client;
  const dir = mkdtempSync(join(tmpdir(), 'agent-ssh-'));
  before(async () => {
    server = await startTestServer();
    server.manifest = { directory: dir, environmentVariables: { GREETING: 'hello $CODER_WORKSPACE_NAME' } };
    agent = runAgent({ url: server.url, token: TOKEN, version: 'v0.1.0', log: silentLogger, scriptDataDir: dir });
    await server.until('ready', () => server.received.lifecycles.includes('READY'));
    client = await sshClient(await server.tunnel());
  });
  after(async () => {
    client.end();
    await agent.stop();
    await server.close();
    rmSync(dir, { recursive: true });
  });

  test('runs a command: output, separate stderr, exit code, directory, environment', async () => {
    const got = await run(client, 'pwd; echo "$GREETING" >&2; exit 7', { env: { EXTRA: '1' } });
    assert.deepEqual(got, { stdout: `${dir}\n`, stderr: 'hello dev\n', code: 7, signal: undefined });
    const env = await run(client, 'env', { env: { EXTRA: '1' } });
    for (const line of ['EXTRA=1', 'CODER=true', 'CODER_WORKSPACE_AGENT_NAME=main', `CODER_AGENT_TOKEN=${TOKEN}`])
      assert.ok(env.stdout.split('\n').includes(line), line);
  });

  test('sets SSH_CONNECTION and SSH_TTY for programs', async () => {
    const client_ = 'SSH_CLIENT=0.0.0.0 0 0';
    const connection = 'SSH_CONNECTION=0.0.0.0 0 0.0.0.0 0';
    const got = await run(client, 'env | grep ^SSH_ | sort');
    assert.equal(got.stdout, `${client_}\n${connection}\n`);
    const pty = { rows: 24, cols: 80, term: 'xterm' };
    const inTerminal = await run(client, 'env | grep ^SSH_ | sort; tty; exit 3', { pty });
    const [first, second, third, tty] = inTerminal.stdout.split('\r\n');
    assert.deepEqual([first, second, third, inTerminal.code], [client_, connection, `SSH_TTY=${tty}`, 3]);
    assert.match(tty!, /^\/dev\//);
  });

  test('input ends when the client ends it', async () => {
    const channel = await exec(client, 'wc -c');
    channel.end(Buffer.alloc(3_000_000));
    assert.equal((await outcome(channel)).stdout.trim(), '3000000');
  });

  test('programs can open /dev/stdout and /dev/stderr', async () => {
    const got = await run(client, 'echo a > /dev/stdout; echo b | tee /dev/stderr; echo c > /dev/stderr');
    assert.deepEqual(got, { stdout: 'a\nb\n', stderr: 'b\nc\n', code: 0, signal: undefined });
  });

  test('programs can open /dev/stdin, also again after its end', async () => {
    const channel = await exec(client, 'head -c 2 /dev/stdin; cat /dev/stdin; cat /dev/stdin | wc -c');
    channel.write('abc\n');
    channel.once('data', () => channel.end('more\n'));
    assert.deepEqual(await outcome(channel), { stdout: 'abc\nmore\n0\n', stderr: '', code: 0, signal: undefined });
  });

  test('reports which signal ended a program, and then the status that upstream’s agent sends', async (t) => {
    const { _handlers: handlers } = (client as unknown as { _protocol: { _handlers: ClientHandlers } })._protocol;
    const { mock } = t.mock.method(handlers, 'CHANNEL_REQUEST');
    const channel = await exec(client, 'echo up; exec sleep 60');
    channel.once('data', () => channel.signal('TERM'));
    const got = await outcome(channel);
    assert.equal(got.signal, 'SIGTERM');
    // the library passes only the first report on
    const reports = mock.calls.map(({ arguments: [, , type, , data] }) => [
      type,
      typeof data === 'number' ? data : data.signal,
    ]);
    assert.deepEqual(reports, [
      ['exit-signal', 'TERM'],
      ['exit-status', 255],
    ]);
  });

  test("a terminal has the requested size and follows the client's", async () => {
    const pty = { rows: 31, cols: 99, term: 'xterm' };
    const channel = await exec(client, 'stty size; read x; stty size; exit 3', { pty });
    let seen = '';
    channel.on('data', (chunk: Buffer) => {
      if (seen === '' && chunk.includes('31 99')) {
        channel.setWindow(40, 120, 0, 0);
        channel.write('\n');
      }
      seen += chunk;
    });
    const got = await outcome(channel);
    assert.match(seen, /31 99[\s\S]*40 120/);
    assert.equal(got.code, 3);
  });

  test('a shell without a terminal reads commands from its input', async () => {
    const channel = await new Promise<import('ssh2').ClientChannel>((resolve, reject) =>
      client.shell(false, (err, ch) => (err ? reject(err) : resolve(ch))),
    );
    channel.end('echo from-shell; exit 4\n');
    const got = await outcome(channel);
    assert.match(got.stdout, /from-shell/);
    assert.equal(got.code, 4);
  });

  test('output and errors that both wait for the window arrive complete', async () => {
    const command = 'head -c 5000000 /dev/zero & head -c 5000000 /dev/zero >&2; wait';
    const got = await run(client, command);
    assert.equal(got.stdout.length, 5_000_000);
    assert.equal(got.stderr.length, 5_000_000);
  });

  test('forwards bulk data (prints the speed without asserting it)', async (t) => {
    const bytes = 300_000_000;
    const channel = await exec(client, `head -c ${bytes} /dev/zero`);
    const from = performance.now();
    let got = 0;
    channel.on('data', (chunk: Buffer) => {
      got += chunk.length;
    });
    await new Promise((resolve) => channel.once('close', resolve));
    assert.equal(got, bytes);
    t.diagnostic(`${Math.round(bytes / 1_000 / (performance.now() - from))} MB/s out of the workspace`);
  });

  test("input that exceeds its program's pace by more than a window arrives complete", async () => {
    // As on a connection with a round trip of 100 ms, for which the windows are widened.
    const listener = createServer((socket) => ssh.serve(Object.assign(socket, { roundTripMs: 100 }))).listen(0);
    await once(listener, 'listening');
    const near = connect((listener.address() as AddressInfo).port, '127.0.0.1');
    const options = { url: server.url, version: 'v0.1.0', log: silentLogger };
    const ssh = createSshServer({ log: silentLogger, options, activity: createActivity(createAgentMetrics()) });
    ssh.setHostKey(deriveHostKey(TOKEN));
    ssh.setWorkspace(createWorkspace(options, TOKEN, create(ManifestSchema, {})));
    const far100 = await sshClient(near);
    const channel = await exec(far100, 'sleep 0.5; wc -c');
    const done = outcome(channel);
    // In packets that divide every window, as clients send them.
    channel.end(Buffer.alloc(40 * 1024 * 1024));
    assert.equal((await done).stdout.trim(), String(40 * 1024 * 1024));
    far100.end();
    listener.close();
  });

  test('a slow client slows the program down instead of filling memory', async () => {
    const channel = await exec(client, 'yes | head -c 50000000; echo done >&2');
    channel.pause();
    let done = false;
    channel.stderr.on('data', () => {
      done = true;
    });
    await run(client, 'sleep 0.5');
    assert.equal(done, false);
    let got = 0;
    channel.on('data', (chunk: Buffer) => {
      got += chunk.length;
    });
    channel.resume();
    await new Promise((resolve) => channel.once('close', resolve));
    assert.equal(got, 50_000_000);
  });

  for (const pty of [false, { rows: 24, cols: 80, term: 'xterm' }]) {
    test(`a program ${pty ? 'in a terminal ' : ''}ends when its client is gone`, async () => {
      const other = await sshClient(await server.tunnel());
      const channel = await exec(other, 'sleep 300 & echo $! $$; wait', pty ? { pty } : {});
      const [line] = (await new Promise<Buffer>((resolve) => channel.once('data', resolve))).toString().split('\n');
      const pids = line!.trim().split(' ').map(Number);
      assert.equal(pids.length, 2);
      other.end();
      const alive = (pid: number) => {
        try {
          return process.kill(pid, 0);
        } catch {
          return false;
        }
      };
      await server.until('the program and its child are gone', () => !pids.some(alive));
    });
  }

  test('SFTP: extensions for links, open files and file systems', async () => {
    const sftp = await new Promise<import('ssh2').SFTPWrapper>((resolve, reject) =>
      client.sftp((err, got) => (err ? reject(err) : resolve(got))),
    );
    const path = join(dir, 'extended');
    writeFileSync(path, 'text');
    symlinkSync('nowhere', join(dir, 'link'));
    const call = <T>(begin: (done: (err: unknown, got: T) => void) => void) =>
      new Promise<T>((resolve, reject) => begin((err, got) => (err ? reject(err) : resolve(got))));
    const handle = await call<Buffer>((done) => sftp.open(path, 'r+', done));
    await call((done) => sftp.ext_openssh_fsync(handle, done));
    rmSync(path);
    const { f_blocks, f_namemax } = await call<{ f_blocks: number; f_namemax: number }>((done) =>
      sftp.ext_openssh_fstatvfs(handle, done as never),
    );
    assert.ok(f_blocks > 0 && f_namemax === 255);
    type Raw = {
      ext_openssh_lsetstat(path: string, attrs: object, done: (err: unknown, got: undefined) => void): void;
    };
    const times = { atime: 1_000, mtime: 2_000 };
    await call<undefined>((done) => (sftp as unknown as Raw).ext_openssh_lsetstat(join(dir, 'link'), times, done));
    assert.equal(lstatSync(join(dir, 'link')).mtimeMs, 2_000_000);
    await assert.rejects(
      call((done) => sftp.ext_openssh_statvfs(join(dir, 'absent'), done as never)),
      { code: 2 },
    );
    sftp.end();
  });

  test('SFTP: rejects a copy into itself, a truncated request and an unknown one', async () => {
    const channel = await new Promise<import('ssh2').ClientChannel>((resolve, reject) =>
      client.subsys('sftp', (err, got) => (err ? reject(err) : resolve(got))),
    );
    const number = (value: number) => Buffer.from(value.toString(16).padStart(8, '0'), 'hex');
    const text = (value: string | Buffer) => Buffer.concat([number(Buffer.byteLength(value)), Buffer.from(value)]);
    const send = (type: number, ...parts: Buffer[]) => {
      const payload = Buffer.concat([Buffer.from([type]), ...parts]);
      channel.write(Buffer.concat([number(payload.length), payload]));
    };
    let rest = Buffer.alloc(0);
    const packets = async function* () {
      for await (const chunk of channel) {
        rest = Buffer.concat([rest, chunk]);
        while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
          const length = rest.readUInt32BE();
          yield rest.subarray(4, 4 + length);
          rest = rest.subarray(4 + length);
        }
      }
    };
    const answers = packets();
    const answer = async () => (await answers.next()).value!;
    send(1, number(3));
    const version = await answer();
    assert.deepEqual([version[0], version.readUInt32BE(1)], [2, 3]);
    assert.ok(version.includes('hardlink@openssh.com'));
    const [read, write, create] = [1, 2, 8];
    send(3, number(1), text(join(dir, 'itself')), number(read | write | create), number(0));
    const handle = text((await answer()).subarray(9));
    const zero = Buffer.alloc(8);
    const extended = async (id: number, ...parts: Buffer[]) => {
      send(200, number(id), ...parts);
      const got = await answer();
      return [got[0], got.readUInt32BE(1), got.readUInt32BE(5)];
    };
    const [status, failure, unsupported] = [101, 4, 8];
    assert.deepEqual(await extended(2, text('copy-data'), handle, zero, zero, handle, zero), [status, 2, failure]);
    assert.deepEqual(await extended(3, text('copy-data'), handle, zero), [status, 3, failure]);
    assert.deepEqual(await extended(4, text('hardlink@openssh.com')), [status, 4, failure]);
    assert.deepEqual(await extended(5, text('constructor')), [status, 5, unsupported]);
    channel.end();
  });

  test('background processes do not hold the session', async () => {
    const from = performance.now();
    const got = await run(client, 'sleep 20 & echo started');
    assert.deepEqual([got.stdout, got.code], ['started\n', 0]);
    assert.ok(performance.now() - from < 10_000);
  });

  test('presents the host key that it reported to the server', async () => {
    const refused = sshClient(await server.tunnel(), { hostVerifier: () => false });
    await assert.rejects(refused, /host/i);
    const key = deriveHostKey(TOKEN).publicBlob;
    const other = await sshClient(await server.tunnel(), { hostVerifier: (shown: Buffer) => shown.equals(key) });
    other.end();
  });
});
