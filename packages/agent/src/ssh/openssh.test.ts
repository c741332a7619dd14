import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger, spawnGroup } from '@ropewalk/kit';
import { Connection_Action } from '@ropewalk/wire/proto/agent';
import { type RunningAgent, runAgent } from '../agent.ts';
import { runProgram, SSH_OPTIONS, startBridge, withoutOpenSsh } from '../testing/openssh.ts';
import { startTestServer, type TestServer, TOKEN } from '../testing/server.ts';

const sum = (data: Buffer) => createHash('sha256').update(data).digest('hex');

async function freePort(): Promise<number> {
  const listener = createServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  listener.close();
  await once(listener, 'close');
  return port;
}

/** Exchanges one message with a TCP server, and retries until it answers. */
async function ask(port: number, text: string): Promise<string> {
  const end = performance.now() + 60_000;
  for (;;) {
    try {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      socket.end(text);
      let answer = '';
      for await (const chunk of socket) answer += chunk;
      if (answer !== '') return answer;
    } catch (err) {
      if (performance.now() > end) throw err;
    }
    if (performance.now() > end) throw new Error('no answer');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("OpenSSH's programs", { skip: withoutOpenSsh() }, () => {
  let server: TestServer;
  let agent: RunningAgent;
  let bridge: Awaited<ReturnType<typeof startBridge>>;
  const dir = mkdtempSync(join(tmpdir(), 'agent-openssh-'));
  const ssh = (args: string[], input?: string, env?: NodeJS.ProcessEnv) =>
    runProgram('ssh', [...SSH_OPTIONS, '-p', String(bridge.port), ...args], input, env);
  before(async () => {
    server = await startTestServer();
    writeFileSync(join(dir, 'motd'), 'welcome to dev\n');
    server.manifest = { directory: dir, motdPath: join(dir, 'motd') };
    const env = { ...process.env, HOME: dir };
    agent = runAgent({ url: server.url, token: TOKEN, version: 'v0.1.0', log: silentLogger, scriptDataDir: dir, env });
    await server.until('ready', () => server.received.lifecycles.includes('READY'));
    bridge = await startBridge(server);
  });
  after(async () => {
    bridge.close();
    await agent.stop();
    await server.close();
    rmSync(dir, { recursive: true });
  });

  test('ssh: command, input, exit code', async () => {
    const got = await ssh(['coder@127.0.0.1', 'cat; echo bad >&2; exit 9'], 'typed\n');
    assert.deepEqual(got, { stdout: 'typed\n', stderr: 'bad\n', code: 9 });
  });

  test('ssh -tt: a terminal, with the message of the day before a shell', async () => {
    const got = await ssh(['-tt', 'coder@127.0.0.1'], 'tty && echo "n=$((40+2))"; exit 5\n');
    assert.match(got.stdout, /welcome to dev[\s\S]*\/dev\/pts\/\d+[\s\S]*n=42/);
    assert.equal(got.code, 5);
  });

  test('sftp: put, get, list, links, rename, modes, directories', async () => {
    const data = randomBytes(3_000_000);
    const local = join(dir, 'local.bin');
    writeFileSync(local, data);
    const far = join(dir, 'far');
    const batch = [
      `mkdir ${far}`,
      `put ${local} ${far}/a.bin`,
      `chmod 640 ${far}/a.bin`,
      `rename ${far}/a.bin ${far}/b.bin`,
      `ln -s b.bin ${far}/link`,
      `ls -la ${far}`,
      `get ${far}/link ${dir}/back.bin`,
      `mkdir ${far}/sub`,
      `rmdir ${far}/sub`,
      `-get ${far}/absent ${dir}/absent`,
      `pwd`,
    ];
    const args = [...SSH_OPTIONS, '-P', String(bridge.port), '-b', '-', 'coder@127.0.0.1'];
    const got = await runProgram('sftp', args, `${batch.join('\n')}\n`);
    assert.equal(got.code, 0, got.stderr);
    assert.equal(sum(readFileSync(join(dir, 'back.bin'))), sum(data));
    assert.equal(statSync(join(far, 'b.bin')).mode & 0o777, 0o640);
    assert.equal(readlinkSync(join(far, 'link')), 'b.bin');
    assert.match(got.stdout, /-rw-r-----\s+1 .*3000000 .* (\S*\/)?b\.bin/);
    assert.ok(!existsSync(join(far, 'sub')) && !existsSync(join(dir, 'absent')));
    assert.match(got.stderr, /absent.*not found|No such file/);
  });

  test('sftp: hard links, replacing by a rename, free space, copies within the workspace, durable uploads', async () => {
    const data = randomBytes(1_000_000);
    writeFileSync(join(dir, 'ext-local.bin'), data);
    const far = join(dir, 'ext');
    const batch = [
      `mkdir ${far}`,
      `put -f ${dir}/ext-local.bin ${far}/a.bin`,
      `ln ${far}/a.bin ${far}/hard.bin`,
      `put ${dir}/motd ${far}/old`,
      `rename ${far}/old ${far}/hard.bin`,
      `cp ${far}/a.bin ${far}/copy.bin`,
      `-cp ${far}/absent ${far}/copy2.bin`,
      `ln -s absent ${far}/dangling`,
      `-chmod -h 600 ${far}/a.bin`,
      `chown -h ${process.getuid!()} ${far}/dangling`,
      `df ${far}`,
    ];
    const args = [...SSH_OPTIONS, '-vv', '-P', String(bridge.port), '-b', '-', 'coder@127.0.0.1'];
    const got = await runProgram('sftp', args, `${batch.join('\n')}\n`);
    assert.equal(got.code, 0, got.stderr);
    assert.equal(sum(readFileSync(join(far, 'a.bin'))), sum(data));
    assert.equal(readFileSync(join(far, 'hard.bin'), 'utf8'), 'welcome to dev\n');
    assert.equal(sum(readFileSync(join(far, 'copy.bin'))), sum(data));
    assert.equal(statSync(join(far, 'a.bin')).mode & 0o777, 0o600);
    assert.ok(!existsSync(join(far, 'old')));
    assert.match(got.stdout, /Size\s+Used\s+Avail[\s\S]*\d+%/);
    for (const said of ['"posix-rename@openssh.com" revision 1', '"limits@openssh.com" revision 1']) {
      assert.ok(got.stderr.includes(said), got.stderr);
    }
  });

  test('scp: a tree there and back', async () => {
    mkdirSync(join(dir, 'tree/inner'), { recursive: true });
    const data = randomBytes(5_000_000);
    writeFileSync(join(dir, 'tree/inner/file'), data);
    const options = [...SSH_OPTIONS, '-r', '-P', String(bridge.port)];
    const there = await runProgram('scp', [...options, join(dir, 'tree'), `coder@127.0.0.1:${dir}/copied`]);
    assert.deepEqual([there.code, there.stderr], [0, '']);
    assert.equal(sum(readFileSync(join(dir, 'copied/inner/file'))), sum(data), 'uploaded');
    const back = await runProgram('scp', [...options, `coder@127.0.0.1:${dir}/copied`, join(dir, 'again')]);
    assert.deepEqual([back.code, back.stderr], [0, '']);
    assert.equal(sum(readFileSync(join(dir, 'again/inner/file'))), sum(data));
  });

  test('ssh -L and -R forward both ways and half-closed', async () => {
    const echo = createServer({ allowHalfOpen: true }, (socket) => {
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('end', () => socket.end(`got ${text}`));
    });
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    const { port } = echo.address() as AddressInfo;
    const [near, far] = [await freePort(), await freePort()];
    const forwards = ['-L', `${near}:127.0.0.1:${port}`, '-R', `${far}:127.0.0.1:${port}`];
    const args = [...SSH_OPTIONS, '-p', String(bridge.port), '-N', ...forwards, 'coder@127.0.0.1'];
    const client = await spawnGroup('ssh', args, { env: process.env, stdio: 'ignore' });
    try {
      assert.equal(await ask(near, 'near'), 'got near');
      assert.equal(await ask(far, 'far'), 'got far');
    } finally {
      await client.stop('SIGTERM', 1_000);
      echo.close();
    }
    // The listener in the workspace ends with its connection.
    const end = performance.now() + 60_000;
    for (;;) {
      const socket = connect(far, '127.0.0.1');
      const open = await new Promise((resolve) => {
        socket.once('connect', () => resolve(true));
        socket.once('error', () => resolve(false));
      });
      socket.destroy();
      if (!open) break;
      assert.ok(performance.now() < end, 'the port of -R is still open');
    }
  });

  test("ssh -A connects to the client's agent", async () => {
    const socket = join(dir, 'a.sock');
    const keys = await spawnGroup('ssh-agent', ['-D', '-a', socket], { env: process.env, stdio: 'ignore' });
    try {
      await server.until('ssh-agent listens', () => existsSync(socket));
      const env = { ...process.env, SSH_AUTH_SOCK: socket };
      const key = join(dir, 'key');
      await runProgram('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'forwarded-key', '-f', key]);
      assert.equal((await runProgram('ssh-add', [key], '', env)).code, 0);
      const got = await ssh(['-A', 'coder@127.0.0.1', 'ssh-add -l; test "$SSH_AUTH_SOCK" != "$1"'], '', env);
      assert.match(got.stdout, /forwarded-key/);
    } finally {
      await keys.stop('SIGTERM', 1_000);
    }
  });

  const noXauth = spawnSync('xauth', ['-V']).error ? 'no xauth on this machine' : false;
  test("ssh -Y connects programs to the client's display, with authorization", { skip: noXauth }, async () => {
    // A display of the client: reads a program's greeting and answers.
    const display = 5_000 + (process.pid % 10_000);
    const greetings: Buffer[] = [];
    const screen = createServer((socket) => {
      socket.on('data', (chunk) => {
        greetings.push(chunk as Buffer);
        socket.end('from the display');
      });
    });
    mkdirSync('/tmp/.X11-unix', { recursive: true });
    await new Promise<void>((resolve) => screen.listen(`/tmp/.X11-unix/X${display}`, resolve));
    try {
      // A greeting names its protocol and its cookie, of 18 and 16 bytes, each padded to a multiple of four.
      writeFileSync(
        join(dir, 'x11-program.cjs'),
        `const display = /:(\\d+)\\./.exec(process.env.DISPLAY)[1];
        const list = require('node:child_process').execFileSync('xauth', ['list']).toString();
        const cookie = new RegExp('unix:' + display + '\\\\s+MIT-MAGIC-COOKIE-1\\\\s+([0-9a-f]{32})').exec(list)[1];
        const socket = require('node:net').connect(6000 + Number(display), '127.0.0.1');
        socket.write(Buffer.from([0x6c, 0, 11, 0, 0, 0, 18, 0, 16, 0, 0, 0]));
        socket.write('MIT-MAGIC-COOKIE-1\\0\\0');
        socket.write(Buffer.from(cookie, 'hex'));
        console.log(process.env.DISPLAY);
        socket.pipe(process.stdout);`,
      );
      const got = await ssh(['-Y', 'coder@127.0.0.1', `${process.execPath} ${join(dir, 'x11-program.cjs')}`], '', {
        ...process.env,
        DISPLAY: `:${display}`,
        XAUTHORITY: join(dir, 'client.Xauthority'),
      });
      assert.equal(got.code, 0, got.stderr);
      assert.match(got.stdout, /^localhost:\d+\.0\nfrom the display$/);
      assert.match(Buffer.concat(greetings).toString('latin1'), /MIT-MAGIC-COOKIE-1/);
    } finally {
      screen.close();
    }
  });

  test('reports and counts sessions', async () => {
    await server.until('reports', () => server.received.connections.some(({ statusCode }) => statusCode === 9));
    const received = () => server.received.stats.reduce((sum, stats) => sum + (stats?.rxBytes ?? 0n), 0n);
    await server.until('bytes', () => received() > 3_000_000n);
    const ended = server.received.connections.filter(({ action }) => action === Connection_Action.DISCONNECT);
    assert.ok(ended.length > 0 && ended.every(({ id }) => id.length === 16));
  });
});
