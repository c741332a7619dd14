import { type StdioOptions, spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { Readable, type Writable } from 'node:stream';
import { errorText, type GroupChild, spawnGroup } from '@ropewalk/kit';

/** How many pipes are made at the same time: each call of a shell costs a process, and each pipe another. */
const BATCH = 12;

/** The processes of this script hold a pipe each as their output. They print their ids and end with the script's input. */
const HOLD_PIPES = `exec 8>&1 9<&0
hold() { read -r pid rest </proc/self/stat; echo "$pid" >&8; read -r end <&9; }
${'hold | '.repeat(BATCH)}read -r end <&9`;

/** How long the shell may take, in ms. No load explains more. */
const MAKING_MS = 30_000;

/** How long after a program's start the next pipes are made. The start has priority. */
const AHEAD_MS = 50;
const READ_BYTES = 64 * 1024;

/** An anonymous pipe: a descriptor for each end. */
interface Pipe {
  reading: number;
  writing: number;
}

/** Pipes ready for use. */
const spare: Pipe[] = [];
let making: Promise<void> | undefined;

/** Whether pipes cannot be made. Only Linux has descriptors of other processes as files, and only there programs need pipes. */
let broken = process.platform !== 'linux';

/**
 * Node.js cannot make pipes. But Linux shows descriptors as files, and a process that opens such a file gets another end of
 * the pipe. So a shell makes pipes between processes, the agent opens them, and the shell ends.
 */
async function makeSpares(): Promise<void> {
  const shell = spawn('/bin/sh', ['-c', HOLD_PIPES], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: process.env['PATH'] },
    timeout: MAKING_MS,
  });
  const ended = new Promise<void>((resolve, reject) => {
    shell.once('error', reject);
    shell.once('close', () => resolve());
  });
  // one that did not start can be without streams
  if (shell.pid === undefined) return await ended;
  shell.stdin.on('error', () => {});
  const made: Pipe[] = [];
  try {
    for (const pid of await printedIds(shell.stdout)) made.push(openPipe(`/proc/${pid}/fd/1`));
  } catch (err) {
    for (const pipe of made) closePipe(pipe);
    throw err;
  } finally {
    shell.stdin.end();
    await ended;
  }
  spare.push(...made);
}

/** Reads the ids of the processes that hold pipes. Rejects if the shell ends before all have printed theirs. */
async function printedIds(output: Readable): Promise<string[]> {
  let text = '';
  for await (const chunk of output) {
    text += chunk;
    const ids = text.split('\n').slice(0, -1);
    if (ids.length === BATCH) return ids;
  }
  throw new Error('the shell ended before it had made pipes');
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
  if (spare.length < count) setTimeout(() => spare.length < count && moreSpares().catch(() => {}), AHEAD_MS).unref();
  return taken;
}

/** Opens both ends of a pipe. They block, as programs expect: a socket of Node.js makes only its own end non-blocking. */
function openPipe(path: string): Pipe {
  const reading = openSync(path, constants.O_RDONLY);
  try {
    return { reading, writing: openSync(path, constants.O_WRONLY) };
  } catch (err) {
    closeSync(reading);
    throw err;
  }
}

function closePipe(pipe: Pipe): void {
  closeSync(pipe.reading);
  closeSync(pipe.writing);
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
 * Starts a program whose input, output and errors are pipes. Node's own are sockets, and a program that opens /dev/stdin,
 * /dev/stdout or /dev/stderr fails on a socket. Scripts do that often. Falls back to sockets if pipes cannot be made.
 */
export async function spawnPiped(file: string, args: string[], options: PipedOptions): Promise<PipedChild> {
  const { cwd, env, stdin } = options;
  let pipes: Pipe[] = [];
  if (!broken) {
    try {
      pipes = await takePipes(stdin ? 3 : 2);
    } catch (err) {
      // Running out of descriptors or processes is temporary. A missing shell or /proc is permanent.
      broken = !/EMFILE|ENFILE|EAGAIN/.test(errorText(err));
    }
  }
  const [out, errors, input] = pipes;
  if (!out || !errors) return await spawnWithSockets(file, args, options);
  let child: GroupChild;
  try {
    const stdio: StdioOptions = [input?.reading ?? 'ignore', out.writing, errors.writing];
    child = await spawnGroup(file, args, { cwd, env, stdio });
  } catch (err) {
    for (const pipe of pipes) closePipe(pipe);
    throw err;
  }
  for (const fd of [out.writing, errors.writing]) closeSync(fd);
  if (input) closeSync(input.reading);
  return {
    child,
    stdin: input ? writePipe(input.writing, child) : null,
    stdout: readPipe(out.reading),
    stderr: readPipe(errors.reading),
  };
}

async function spawnWithSockets(file: string, args: string[], { cwd, env, stdin }: PipedOptions): Promise<PipedChild> {
  const child = await spawnGroup(file, args, { cwd, env, stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
  const { process } = child;
  return { child, stdin: process.stdin, stdout: process.stdout!, stderr: process.stderr! };
}

/** Ends with its program. What the program has not read by then is lost. */
function writePipe(fd: number, child: GroupChild): Writable {
  const socket = new Socket({ fd, readable: false, writable: true });
  void child.exited.then(() => socket.destroy());
  return socket;
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
