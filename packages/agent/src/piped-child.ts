import { spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { errorText, type GroupChild, spawnGroup } from '@ropewalk/kit';
import { scratchDir } from './scratch.ts';

/** How many pipes are made at the same time: each call of mkfifo costs a process. */
const BATCH = 8;

/** How long after a program's start the next pipes are made. The start has priority. */
const AHEAD_MS = 50;
const READ_BYTES = 64 * 1024;

interface Pipe {
  /** This program's end. Never blocks. */
  own: number;
  /** The child's end. Blocks, as programs expect. */
  child: number;
}

/** Open pipes ready for use. Their names are removed already. */
const spare: Pipe[] = [];
let making: Promise<void> | undefined;
let broken = false;

async function makeSpares(): Promise<void> {
  const directory = await scratchDir('pipes');
  try {
    const paths = Array.from({ length: BATCH }, (_, i) => join(directory, String(i)));
    await new Promise<void>((resolve, reject) => {
      const child = spawn('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore', env: { PATH: process.env['PATH'] } });
      child.on('error', reject);
      child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`mkfifo ended with ${code}`))));
    });
    for (const path of paths) spare.push(openPipe(path));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function moreSpares(): Promise<void> {
  making ??= makeSpares().finally(() => {
    making = undefined;
  });
  return making;
}

async function takePipes(count: number): Promise<Pipe[]> {
  while (spare.length < count) await moreSpares();
  const taken = spare.splice(0, count);
  // Made ahead, so that a program need not wait for them. A failure surfaces when they are needed.
  if (spare.length < count) setTimeout(() => spare.length < BATCH && moreSpares().catch(() => {}), AHEAD_MS).unref();
  return taken;
}

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants;

/** Opens both ends of a named pipe for reading a child's output. */
function openPipe(path: string): Pipe {
  let own: number | undefined;
  try {
    own = openSync(path, O_RDONLY | O_NONBLOCK);
    return { own, child: openSync(path, O_WRONLY) };
  } catch (err) {
    if (own !== undefined) closeSync(own);
    throw err;
  }
}

export interface PipedChild {
  child: GroupChild;
  stdin: Writable | null;
  stdout: Readable;
  stderr: Readable;
}

export interface PipedOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Whether the program gets an input stream. Otherwise its input is empty. */
  stdin: boolean;
}

/**
 * Starts a program whose stdout and stderr are real pipes. Node's own are sockets, and a program that opens /dev/stdout
 * or /dev/stderr fails on a socket. Scripts do that often. Falls back to sockets if named pipes are not available.
 * Input stays a socket: a program that opens a named pipe as /dev/stdin after its last writer left would wait forever.
 */
export async function spawnPiped(file: string, args: string[], options: PipedOptions): Promise<PipedChild> {
  const { cwd, env } = options;
  const input = options.stdin ? 'pipe' : 'ignore';
  let pipes: Pipe[] = [];
  if (!broken) {
    try {
      pipes = await takePipes(2);
    } catch (err) {
      // Running out of descriptors is temporary. A missing mkfifo or an unusable directory is permanent.
      broken = !/EMFILE|ENFILE|EAGAIN/.test(errorText(err));
    }
  }
  const [out, errors] = pipes;
  if (!out || !errors) {
    const child = await spawnGroup(file, args, { cwd, env, stdio: [input, 'pipe', 'pipe'] });
    const { stdin, stdout, stderr } = child.process;
    return { child, stdin, stdout: stdout!, stderr: stderr! };
  }
  let child: GroupChild;
  try {
    child = await spawnGroup(file, args, { cwd, env, stdio: [input, out.child, errors.child] });
  } catch (err) {
    for (const pipe of pipes) closePipe(pipe);
    throw err;
  }
  for (const pipe of pipes) closeSync(pipe.child);
  return { child, stdin: child.process.stdin, stdout: readPipe(out.own), stderr: readPipe(errors.own) };
}

/**
 * Reads through one buffer and copies only the received bytes. A socket's own reads allocate 64 KiB each, and many
 * programs fill an eighth. Under load the agent spent most of its time collecting the rest.
 */
function readPipe(fd: number): Readable {
  const socket = new Socket({
    fd,
    readable: true,
    writable: false,
    onread: {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      callback: (size, buffer) => stream.push(Buffer.from(buffer.subarray(0, size))),
    },
  });
  const stream = new Readable({
    highWaterMark: READ_BYTES,
    read: () => void socket.resume(),
    destroy: (err, done) => {
      socket.destroy();
      done(err);
    },
  });
  socket.on('error', (err) => stream.destroy(err));
  let ended = false;
  socket.on('end', () => {
    ended = true;
    stream.push(null);
  });
  // Destroying the stream would lose data that waits to be read.
  socket.on('close', () => ended || stream.destroy());
  return stream;
}

function closePipe(pipe: Pipe): void {
  closeSync(pipe.own);
  closeSync(pipe.child);
}
