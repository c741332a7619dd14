import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Duplex, duplexPair, PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { type TestContext, test } from 'node:test';
import { connectResumable } from '@ropewalk/wire/resume/client';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import ssh2, { type ServerChannel } from 'ssh2';
import { parseTarget } from '../commands/workspaces/ssh.ts';
import type { Context } from '../framework/context.ts';
import { parseEnv, parseForward } from './options.ts';
import { runSession } from './session.ts';

const pem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'sec1', format: 'pem' });
const parsed = ssh2.utils.parseKey(String(pem));
if (parsed instanceof Error) throw parsed;
const hostKey = parsed.getPublicSSH().toString('base64');

/** An SSH server whose sessions do what `onExec` says. */
async function serve(
  t: TestContext,
  onExec: (command: string, channel: ServerChannel, env: string[], terminal: string) => void,
) {
  const server = new ssh2.Server({ hostKeys: [String(pem)] }, (client) => {
    t.after(() => client.end());
    client.on('authentication', (auth) => auth.accept());
    client.on('error', () => {});
    client.on('request', (accept, _reject, name, info) => {
      accept?.();
      if (name !== 'tcpip-forward') {
        const { socketPath } = info as unknown as { socketPath: string };
        client.openssh_forwardOutStreamLocal(socketPath, (err, channel) => {
          if (!err) channel.end('over the socket');
        });
        return;
      }
      client.forwardOut('localhost', (info as { bindPort: number }).bindPort, '127.0.0.1', 1, (err, channel) => {
        if (!err) channel.end('over the forward');
      });
    });
    client.on('session', (accept) => {
      const session = accept();
      const env: string[] = [];
      session.on('env', (yes, _no, info) => {
        env.push(`${info.key}=${info.val}`);
        yes?.();
      });
      let terminal = 'none';
      session.on('pty', (yes, _no, info) => {
        terminal = `${info.cols}x${info.rows}`;
        yes?.();
      });
      session.on('exec', (yes, _no, info) => onExec(info.command, yes(), env, terminal));
      session.on('shell', (yes) => onExec('a shell', yes(), env, terminal));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A session over connections that can be cut. */
async function resumable(t: TestContext, port: number, graceMs?: number) {
  const sessions = new ResumableSessions(graceMs === undefined ? {} : { graceMs });
  const state = { away: false, ends: [] as Duplex[] };
  const begun = Promise.withResolvers<void>();
  const stream = await connectResumable({
    mayRetry: () => true,
    ...(graceMs === undefined ? {} : { graceMs }),
    dial: async (kind) => {
      if (state.away) throw new Error('away');
      const [near, far] = duplexPair();
      for (const end of [near, far]) end.on('error', () => {});
      state.ends.push(near, far);
      if (kind === 'attach') void sessions.attach(far, { user: 'ann', key: 'k' });
      else {
        const socket = connect(port, '127.0.0.1');
        const served = sessions.serve(far, { user: 'ann', key: 'k' });
        served.once('attached', begun.resolve);
        pipeline(socket, served, socket).catch(() => {});
      }
      return near;
    },
  });
  t.after(() => stream.destroy());
  // a session whose first bytes are lost cannot be resumed
  await begun.promise;
  const cut = () => {
    state.away = true;
    for (const end of state.ends.splice(0)) end.destroy();
  };
  const back = () => {
    state.away = false;
  };
  return { stream, cut, back };
}

async function exec(
  at: number | Duplex,
  options: {
    /** Empty: a shell. */
    command?: string;
    stdin?: string;
    terminals?: ('stdin' | 'stdout')[];
    key?: string;
    env?: string[];
    forwards?: string[];
    signal?: AbortSignal;
    handshakeMs?: number;
  },
) {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  stdin.end(options.stdin ?? '');
  if (options.terminals?.includes('stdin')) Object.assign(stdin, { isTTY: true });
  if (options.terminals?.includes('stdout')) Object.assign(stdout, { isTTY: true, columns: 132, rows: 43 });
  const signal = options.signal ?? new AbortController().signal;
  const texts = Promise.all([text(stdout), text(stderr)]);
  const ctx = { io: { stdin, stdout, stderr }, env: {}, signal } as unknown as Context;
  const stream = typeof at === 'number' ? connect(at, '127.0.0.1').setNoDelay(true) : at;
  try {
    const code = await runSession(ctx, {
      stream,
      hostKey: options.key ?? hostKey,
      command: options.command === '' ? undefined : (options.command ?? 'x'),
      env: parseEnv(options.env ?? []),
      ...(options.handshakeMs === undefined ? {} : { handshakeMs: options.handshakeMs }),
      remoteForwards: (options.forwards ?? []).map(parseForward),
    });
    stdout.end();
    stderr.end();
    const [out, err] = await texts;
    return { code, out, err };
  } finally {
    stdout.end();
    stderr.end();
  }
}

test('runs a command with stdin, stdout, stderr, environment and exit code', async (t) => {
  const port = await serve(t, async (command, channel, env) => {
    let input = '';
    channel.on('data', (part: Buffer) => {
      input += String(part);
    });
    await new Promise((resolve) => channel.once('end', resolve));
    channel.write(`${command}|${input}|${env.join(',')}`);
    channel.stderr.write('oops');
    channel.exit(7);
    channel.end();
  });
  const { code, out, err } = await exec(port, { command: 'do it', stdin: 'in', env: ['A=b=c'] });
  assert.deepEqual({ code, out, err }, { code: 7, out: 'do it|in|A=b=c', err: 'oops' });
});

test('turns a signal into 128 and its number', async (t) => {
  const port = await serve(t, (_command, channel) => {
    channel.exit('TERM', false, '');
    channel.end();
  });
  assert.equal((await exec(port, {})).code, 143);
});

test('gives a command a terminal if stdin and stdout are terminals, and a shell if stdin is', async (t) => {
  const port = await serve(t, (command, channel, _env, terminal) => {
    channel.write(`${command}: ${terminal}`);
    channel.exit(0);
    channel.end();
  });
  const cases: [string, ('stdin' | 'stdout')[], string][] = [
    ['htop', ['stdin', 'stdout'], 'htop: 132x43'],
    ['ls', ['stdin'], 'ls: none'],
    ['ls', ['stdout'], 'ls: none'],
    ['', ['stdin', 'stdout'], 'a shell: 132x43'],
    ['', ['stdin'], 'a shell: 80x24'],
    ['', ['stdout'], 'a shell: none'],
  ];
  for (const [command, terminals, wanted] of cases)
    assert.equal((await exec(port, { command, terminals })).out, wanted);
});

test('hangs up at Ctrl+C on a command whose input has ended', async (t) => {
  const interrupt = new AbortController();
  const port = await serve(t, (_command, channel) => {
    channel.once('end', () => interrupt.abort());
    channel.resume();
  });
  await assert.rejects(exec(port, { signal: interrupt.signal }), /connection to the workspace was lost/);
});

test('delivers much output completely at the pace of the reader', async (t) => {
  const port = await serve(t, (_command, channel) => {
    channel.write(Buffer.alloc(8 << 20, 'x'), () => {
      channel.exit(0);
      channel.end();
    });
  });
  const { out } = await exec(port, {});
  assert.equal(out.length, 8 << 20);
});

test('fails for another host key, an unknown key and a lost connection', async (t) => {
  const port = await serve(t, (_command, channel) => {
    // what ends without an exit status was cut
    channel.destroy();
  });
  await assert.rejects(exec(port, { key: 'AAAA' }), /SSH host key mismatch/);
  await assert.rejects(exec(port, { key: '' }), /has no SSH host key/);
  await assert.rejects(exec(port, {}), /was lost/);
});

test('waits for a connection that is cut within the handshake, as long as for a later one', async (t) => {
  const port = await serve(t, (_command, channel) => {
    channel.write('done');
    channel.exit(0);
    channel.end();
  });
  const { stream, cut, back } = await resumable(t, port);
  const session = exec(stream, { handshakeMs: 300 });
  cut();
  // longer than the handshake may take
  const timer = setTimeout(back, 1_000);
  t.after(() => clearTimeout(timer));
  assert.deepEqual(await session, { code: 0, out: 'done', err: '' });
});

test('ends with one error if a connection that is cut within the handshake does not come back', async (t) => {
  const port = await serve(t, () => {});
  const { stream, cut } = await resumable(t, port, 300);
  const session = exec(stream, {});
  cut();
  await assert.rejects(session, /^AppError: The connection to the workspace was lost\.$/);
  // an error that nobody expects would fail the test
  await new Promise((resolve) => setImmediate(resolve));

  await assert.rejects(exec(stream, {}), /was lost/, 'a stream that is gone already');
});

test('ends with one error if the other end says nothing', async (t) => {
  const mute = createServer((socket) => socket.on('error', () => {}).resume());
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
  t.after(() => mute.close());
  const session = exec((mute.address() as AddressInfo).port, { handshakeMs: 100 });
  await assert.rejects(session, /its agent did not complete the handshake within 0\.1 s\./);
  await new Promise((resolve) => setImmediate(resolve));
});

test('forwards a port of the workspace to this machine', async (t) => {
  const port = await serve(t, () => {});
  const arrived = Promise.withResolvers<string>();
  const local = createServer((socket) => void text(socket).then(arrived.resolve));
  await new Promise<void>((resolve) => local.listen(0, '127.0.0.1', resolve));
  t.after(() => local.close());
  const session = exec(port, { forwards: [`9000:127.0.0.1:${(local.address() as AddressInfo).port}`] });
  session.catch(() => {});
  assert.equal(await arrived.promise, 'over the forward');
});

test('forwards a socket of the workspace to this machine', async (t) => {
  const port = await serve(t, () => {});
  const dir = mkdtempSync(join(tmpdir(), 'forwards-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const arrived = Promise.withResolvers<string>();
  const local = createServer((socket) => void text(socket).then(arrived.resolve));
  await new Promise<void>((resolve) => local.listen(join(dir, 'l.sock'), resolve));
  t.after(() => local.close());
  const session = exec(port, { forwards: [`/tmp/r.sock:${join(dir, 'l.sock')}`] });
  session.catch(() => {});
  assert.equal(await arrived.promise, 'over the socket');
});

test('reads targets and forwards as upstream does', () => {
  const at = (name: string, prefix = '', suffix = '') => parseTarget(name, prefix, suffix);
  assert.deepEqual(at('dev'), { workspace: 'dev', agent: '' });
  assert.deepEqual(at('ann/dev.main'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('coder.ann--dev--main', 'coder.'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('coder.dev', 'coder.'), { workspace: 'dev', agent: '' });
  assert.deepEqual(at('coder.dev.main', 'coder.'), { workspace: 'dev', agent: 'main' });
  assert.deepEqual(at('coder.ann--dev', 'coder.'), { workspace: 'ann/dev', agent: '' });
  assert.deepEqual(at('coder.ann--dev.main', 'coder.'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('ann--dev.coder', '', 'coder'), { workspace: 'ann/dev', agent: '' });
  assert.deepEqual(at('main.dev.ann.coder', '', 'coder'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('dev.coder', '', 'coder'), { workspace: 'dev', agent: '' });
  assert.deepEqual(at('dev.main.coder', '', 'coder'), { workspace: 'dev', agent: 'main' });
  assert.deepEqual(at('coder.main.dev.ann', 'coder.'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('ann--dev.main.coder', '', 'coder'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('ann--dev--main.coder', '', 'coder'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(at('main.dev.ann'), { workspace: 'ann/dev', agent: 'main' });
  assert.deepEqual(parseForward('80:[::1]:8080'), { remote: 80, local: { host: '::1', port: 8080 } });
  assert.deepEqual(parseForward('80:localhost:8080'), { remote: 80, local: { host: 'localhost', port: 8080 } });
  assert.deepEqual(parseForward('/tmp/r:/tmp/l'), { remote: '/tmp/r', local: { path: '/tmp/l' } });
  for (const wrong of ['80', '0:localhost:80', '80:localhost:65536', '80:/tmp/l', '/tmp/r:localhost:80'])
    assert.throws(() => parseForward(wrong), /remote_port:local_address:local_port/, wrong);
});
