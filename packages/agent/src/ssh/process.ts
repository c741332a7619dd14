import { setImmediate as immediate } from 'node:timers/promises';
import type { Exit } from '@ropewalk/kit';
import type { ServerChannel } from 'ssh2';
import { spawnPiped } from '../piped-child.ts';
import type { RunningPrograms } from '../running-programs.ts';
import { trySignalGroup } from '../signals.ts';
import type { ProcessSpec } from '../workspace.ts';
import { pump } from './channel.ts';

/** How long background processes may hold the output open without using it after the program's end, in ms. */
const PIPES_GRACE_MS = 1_000;

/** A program of a session. */
export interface RunningProcess {
  /** Resolves when the program has ended and the channel has accepted its output. */
  readonly ended: Promise<Exit>;
  /** Signals its whole process group. */
  signal(signal: NodeJS.Signals): void;
  resize(cols: number, rows: number): void;
  /** Handles that the client is gone. */
  hangUp(): void;
}

/** Runs a program with pipes to the channel as its input, output and errors. */
export async function startPiped(
  channel: ServerChannel,
  spec: ProcessSpec,
  programs: RunningPrograms,
): Promise<RunningProcess> {
  const { file, args, env, cwd } = spec;
  const { child, stdin, stdout, stderr } = await spawnPiped(file, args, { cwd, env, stdin: true });
  programs.add(child);
  // A program that ends its input early breaks the pipe. The client need not know.
  stdin!.on('error', () => channel.resume());
  channel.pipe(stdin!);
  let last = performance.now();
  const carried = () => {
    last = performance.now();
  };
  const output = Promise.all([pump(stdout, channel, carried), pump(stderr, channel.stderr, carried)]);
  const run = async (): Promise<Exit> => {
    const exit = await child.exited;
    channel.unpipe(stdin!);
    channel.resume();
    let over = false;
    void output.then(() => {
      over = true;
    });
    last = performance.now();
    while (!over) {
      const waiting = channel.writableLength > 0 || channel.stderr.writableLength > 0;
      const left = last + PIPES_GRACE_MS - performance.now();
      if (!waiting && left <= 0) break;
      await Promise.race([output, new Promise((resolve) => setTimeout(resolve, waiting ? 100 : left))]);
      // an agent that got no processor meanwhile first reads what is there, and copies it in the turn after
      await immediate();
      await immediate();
    }
    stdout.destroy();
    stderr.destroy();
    return exit;
  };
  return {
    ended: run(),
    signal: (name) => void trySignalGroup(child.pid, name),
    resize() {},
    hangUp: () => void trySignalGroup(child.pid, 'SIGHUP'),
  };
}
