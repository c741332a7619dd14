import { connect } from 'node:net';
import { constants } from 'node:os';
import type { Duplex } from 'node:stream';
import { widenSshWindow } from '@ropewalk/client/tunnel-streams';
import { AppError } from '@ropewalk/kit/errors';
import { ownValue } from '@ropewalk/kit/own-value';
import type { ClientChannel, ConnectConfig, ExecOptions } from 'ssh2';
import Client from 'ssh2/lib/client.js';
import type { Context } from '../framework/context.ts';
import type { Io } from '../framework/io.ts';
import { lossOf } from '../lib/end-of-stream.ts';
import type { RemoteForward } from './options.ts';

export interface SessionOptions {
  /** The SSH connection's bytes. */
  stream: Duplex;
  /** Base64 of the only host key that is accepted. Undefined if the stream itself ends at the right agent. */
  hostKey: string | undefined;
  /** Undefined for a login shell. */
  command?: string | undefined;
  /** Whether it has a terminal. Default: if this process has one. */
  tty?: boolean;
  env: Readonly<Record<string, string>>;
  remoteForwards: readonly RemoteForward[];
  /** Path of the SSH agent's socket to forward. */
  agentSocket?: string | undefined;
  /** How long the SSH handshake may take while the stream has a connection, in ms. Default 20 s. */
  handshakeMs?: number;
}

/** Whether a session has a terminal. The output of a command may be meant for a program or a file. */
export const hasTerminal = (io: Io, command: string | undefined): boolean =>
  io.stdin.isTTY === true && (command === undefined || io.stdout.isTTY === true);

const SIGNALS: Partial<Record<string, number>> = constants.signals;
const HANDSHAKE_MS = 20_000;
const MAX_MORE_WINDOW = 14 * 1024 * 1024;

/** Runs one session and returns its exit code: the command's, or 128 + the signal that ended it. */
export async function runSession(ctx: Context, options: SessionOptions): Promise<number> {
  const forwards = options.remoteForwards;
  if (options.hostKey === '') {
    options.stream.destroy();
    throw new AppError(
      'unavailable',
      "The server has no SSH host key for the workspace's agent. Restart the workspace to get this server's agent.",
    );
  }
  const client = new Client();
  // ssh2 may report several errors, also after the handshake and after the session
  client.on('error', () => {});
  try {
    if (options.stream.destroyed) throw lossOf(options.stream);
    await connectSsh(client, options);
    const forwardHere = (arrivedAt: number | string, accept: () => Duplex, reject: () => void) => {
      const forward = forwards.find(({ remote }) => remote === arrivedAt);
      if (!forward) return reject();
      const local = connect(forward.local);
      const refuse = () => reject();
      local.once('error', refuse);
      local.once('connect', () => {
        local.off('error', refuse);
        const channel = accept();
        local.pipe(channel).pipe(local);
        local.on('error', () => channel.destroy());
        channel.on('error', () => local.destroy());
      });
    };
    client.on('tcp connection', ({ destPort }, accept, reject) => forwardHere(destPort, accept, reject));
    client.on('unix connection', ({ socketPath }, accept, reject) => forwardHere(socketPath, accept, reject));
    await Promise.all(forwards.map((forward) => listenRemote(client, forward)));
    return await runChannel(ctx, client, options);
  } catch (err) {
    // ssh2 says "Not connected" if the connection is lost between two steps
    throw err instanceof AppError || !options.stream.destroyed ? err : lossOf(options.stream);
  } finally {
    client.end();
    options.stream.destroy();
  }
}

/** Resolves when a session can begin. */
function connectSsh(client: Client, options: SessionOptions): Promise<void> {
  const { stream, handshakeMs = HANDSHAKE_MS } = options;
  let keyDiffers = false;
  const config: ConnectConfig = {
    sock: stream as never,
    // the agent chooses the user
    username: 'coder',
    // its time limit would go on without a connection
    readyTimeout: 0,
    // longer than a lost connection takes to resume
    keepaliveInterval: 30_000,
    keepaliveCountMax: 4,
    algorithms: {
      // measured as the fastest
      cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes128-ctr'],
      compress: ['none'],
    },
    hostVerifier: (key: Buffer) => {
      if (options.hostKey === undefined) return true;
      keyDiffers = key.toString('base64').replace(/=+$/, '') !== options.hostKey.replace(/=+$/, '');
      return !keyDiffers;
    },
    ...(options.agentSocket ? { agent: options.agentSocket, agentForward: true } : {}),
    authHandler: ['none'],
  };
  return new Promise((resolve, reject) => {
    const failed = (err: Error) => {
      limit.stop();
      reject(err);
    };
    const notConnected = (why: string, cause?: Error) =>
      failed(new AppError('unavailable', `Could not connect to the workspace over SSH: ${why}`, { cause }));
    const limit = whileAttached(stream, handshakeMs, () =>
      notConnected(`its agent did not complete the handshake within ${handshakeMs / 1_000} s.`),
    );
    client.once('ready', () => {
      limit.stop();
      resolve();
    });
    client.once('error', (err) => {
      if (keyDiffers)
        failed(new AppError('forbidden', 'SSH host key mismatch: this is not the agent of the workspace.'));
      // the stream has waited for another connection in vain, or the server ended it
      else if (stream.errored) failed(lossOf(stream));
      else notConnected(err.message, err);
    });
    // an end without an error
    client.once('close', () => failed(lossOf(stream)));
    client.connect(config);
  });
}

/** Calls back when a stream has had a connection for `ms` without a break. */
function whileAttached(stream: Duplex & { attached?: boolean }, ms: number, onOver: () => void): { stop(): void } {
  let timer: NodeJS.Timeout | undefined;
  const pause = () => clearTimeout(timer);
  const count = () => {
    pause();
    timer = setTimeout(onOver, ms);
  };
  stream.on('attached', count).on('detached', pause);
  if (stream.attached !== false) count();
  return {
    stop() {
      pause();
      stream.off('attached', count).off('detached', pause);
    },
  };
}

async function runChannel(ctx: Context, client: Client, options: SessionOptions): Promise<number> {
  const { io } = ctx;
  const tty = options.tty ?? hasTerminal(io, options.command);
  const { channel, exited, outputs } = await openChannel(client, ctx, options, tty);
  const restore = tty && io.stdin.isTTY ? rawTerminal(io, channel) : forwardSignals(ctx, client, channel);
  io.stdin.on('error', () => {});
  // a command that ends early does not read the rest of its input
  channel.on('error', () => {});
  io.stdin.pipe(channel);
  try {
    const code = await exited;
    await outputs;
    return code;
  } finally {
    restore();
    io.stdin.unpipe(channel);
    io.stdin.pause();
  }
}

interface OpenChannel {
  channel: ClientChannel;
  exited: Promise<number>;
  /** Resolves when all output is written. */
  outputs: Promise<unknown>;
}

function openChannel(client: Client, ctx: Context, options: SessionOptions, tty: boolean): Promise<OpenChannel> {
  const { io } = ctx;
  const pty = tty
    ? { term: ctx.env['TERM'] || 'xterm-256color', cols: io.stdout.columns ?? 80, rows: io.stdout.rows ?? 24 }
    : false;
  const settings = { env: options.env, ...(options.agentSocket ? { agentForward: true } : {}) } as ExecOptions;
  return new Promise((resolve, reject) => {
    const done = (err: Error | undefined, channel: ClientChannel) => {
      if (err) {
        reject(new AppError('unavailable', `The workspace rejected the session: ${err.message}`));
        return;
      }
      // enough data in flight for a long round trip
      widenSshWindow(channel, (options.stream as { roundTripMs?: number }).roundTripMs ?? 0, MAX_MORE_WINDOW);
      // immediately: the exit of a quick command may be in the same packet
      const exited = exitOf(client, channel, options.stream);
      exited.catch(() => {});
      const outputs = Promise.all([toOutput(channel, io.stdout), toOutput(channel.stderr, io.stderr)]);
      resolve({ channel, exited, outputs });
    };
    if (options.command === undefined) client.shell(pty as never, settings as never, done);
    else client.exec(options.command, { ...settings, ...(pty ? { pty } : {}) }, done);
    client.once('close', () => reject(lossOf(options.stream)));
  });
}

/** Settles when the exit status and the output have arrived, or when the connection is lost. */
function exitOf(client: Client, channel: ClientChannel, stream: Duplex): Promise<number> {
  return new Promise((resolve, reject) => {
    let code: number | undefined;
    channel.once('exit', (status: number | null, signal?: string) => {
      code = status ?? 128 + (ownValue(SIGNALS, `SIG${(signal ?? '').replace(/^SIG/, '')}`) ?? 0);
    });
    const over = () => (code === undefined ? reject(lossOf(stream)) : resolve(code));
    client.once('error', () => reject(lossOf(stream)));
    channel.once('close', over);
    client.once('close', over);
  });
}

/** Copies a stream at the pace of the reader. Resolves when everything is written. */
function toOutput(from: NodeJS.ReadableStream, to: Io['stdout'] | Io['stderr']): Promise<void> {
  return new Promise((resolve) => {
    from.once('end', resolve);
    from.once('close', resolve);
    from.pipe(to, { end: false });
  });
}

function rawTerminal(io: Io, channel: ClientChannel): () => void {
  const resize = () => channel.setWindow(io.stdout.rows ?? 24, io.stdout.columns ?? 80, 0, 0);
  io.stdin.setRawMode?.(true);
  io.stdout.on('resize', resize);
  return () => {
    io.stdout.off('resize', resize);
    io.stdin.setRawMode?.(false);
  };
}

function forwardSignals(ctx: Context, client: Client, channel: ClientChannel): () => void {
  // ssh2 sends no signal after the end of the input: hang up instead, as ssh does
  const onInterrupt = () => {
    if (channel.writable) channel.signal('INT');
    else client.end();
  };
  ctx.signal.addEventListener('abort', onInterrupt, { once: true });
  return () => ctx.signal.removeEventListener('abort', onInterrupt);
}

function listenRemote(client: Client, { remote }: RemoteForward): Promise<void> {
  const place = typeof remote === 'number' ? `port ${remote}` : remote;
  return new Promise((resolve, reject) => {
    const done = (err?: Error | null) =>
      err ? reject(new AppError('unavailable', `The workspace cannot listen on ${place}: ${err.message}`)) : resolve();
    if (typeof remote === 'number') client.forwardIn('localhost', remote, done);
    else client.openssh_forwardInStreamLocal(remote, done);
  });
}
