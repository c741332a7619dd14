import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, constants, openSync, unlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { errorText, type GroupChild, spawnGroup } from '@platform/kit';

/** Made at a time, since each call of mkfifo costs a process. */
const BATCH = 24;

interface Pipe {
  /** This program's end: never blocks. */
  own: number;
  /** The child's end: blocks, as programs expect. */
  child: number;
}

let directory: Promise<string> | undefined;
let spare: string[] = [];
let making: Promise<void> | undefined;
let broken = false;

async function makeSpares(): Promise<void> {
  directory ??= mkdtemp(join(tmpdir(), 'agent-pipes-'));
  const dir = await directory;
  const paths = Array.from({ length: BATCH }, () => join(dir, randomUUID()));
  await new Promise<void>((resolve, reject) => {
    const child = spawn('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore' });
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`mkfifo ended with ${code}`))));
  });
  spare.push(...paths);
}

async function takePaths(count: number): Promise<string[]> {
  while (spare.length < count) {
    making ??= makeSpares().finally(() => {
      making = undefined;
    });
    await making;
  }
  return spare.splice(0, count);
}

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants;

/** Opens both ends of a named pipe for reading what a child writes; the pipe then has no name any more. */
function openPipe(path: string): Pipe {
  let own: number | undefined;
  try {
    own = openSync(path, O_RDONLY | O_NONBLOCK);
    return { own, child: openSync(path, O_WRONLY) };
  } catch (err) {
    if (own !== undefined) closeSync(own);
    throw err;
  } finally {
    unlinkSync(path);
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
  /** Without it, input is empty. */
  stdin: boolean;
}

/**
 * Starts a program whose output and errors are real pipes. Node's own are sockets, on which a program that opens
 * /dev/stdout or /dev/stderr fails; scripts do that all the time. Where named pipes can't be had, sockets must do.
 * Input stays a socket: who opens a named pipe by /dev/stdin after its last writer left would wait for ever.
 */
export async function spawnPiped(file: string, args: string[], options: PipedOptions): Promise<PipedChild> {
  const { cwd, env } = options;
  const input = options.stdin ? 'pipe' : 'ignore';
  const pipes: Pipe[] = [];
  if (!broken) {
    try {
      for (const path of await takePaths(2)) pipes.push(openPipe(path));
    } catch (err) {
      for (const pipe of pipes.splice(0)) closePipe(pipe);
      // Out of descriptors, or a cleaned directory, is a trouble of the moment; no mkfifo, or no place for it, stays.
      if (/ENOENT.*agent-pipes/.test(errorText(err))) await removePipes();
      else broken = !/EMFILE|ENFILE/.test(errorText(err));
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
  const reader = (fd: number) => new Socket({ fd, readable: true, writable: false });
  return { child, stdin: child.process.stdin, stdout: reader(out.own), stderr: reader(errors.own) };
}

function closePipe(pipe: Pipe): void {
  closeSync(pipe.own);
  closeSync(pipe.child);
}

/** Removes what is left of the named pipes; for the end of the program. */
export async function removePipes(): Promise<void> {
  spare = [];
  const dir = directory;
  directory = undefined;
  if (dir) await dir.then((path) => rm(path, { recursive: true, force: true })).catch(() => {});
}
