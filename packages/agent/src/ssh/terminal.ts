import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { IPty } from '@lydell/node-pty';
import type { Exit } from '@platform/kit';
import type { PseudoTtyInfo, ServerChannel } from 'ssh2';
import { tellGroup } from '../signals.ts';
import { pump } from './channel.ts';
import type { ProcessSpec, RunningProcess } from './process.ts';

declare global {
  /** Set by the single executable, which unpacks the native part before it can be loaded. */
  var PLATFORM_LOAD_PTY: (() => Promise<typeof import('@lydell/node-pty')>) | undefined;
}

/** node-pty gives the reading end of a terminal this long after the program's end. */
const DRAIN_MS = 200;
const MAX_SIDE = 1_000;

function side(value: number, fallback: number): number {
  return Number.isInteger(value) && value > 0 ? Math.min(value, MAX_SIDE) : fallback;
}

function signalName(number: number | undefined): NodeJS.Signals | null {
  if (!number) return null;
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

/** Keeps what the terminal still holds when its program ends while the client is slow: node-pty would drop it. */
function keepUntilRead(socket: Socket): void {
  const destroy = socket.destroy.bind(socket);
  socket.destroy = (err?: Error) => {
    if (!socket.isPaused() || err) return destroy(err);
    socket.once('resume', () => setTimeout(() => socket.destroy(), DRAIN_MS));
    return socket;
  };
}

/** Runs a program in a terminal of its own. */
export async function startTerminal(
  channel: ServerChannel,
  spec: ProcessSpec,
  request: PseudoTtyInfo,
): Promise<RunningProcess> {
  const pty = await (globalThis.PLATFORM_LOAD_PTY?.() ?? import('@lydell/node-pty'));
  const { file, args, env, cwd } = spec;
  // The type is missing from node-pty's declarations of what the request holds.
  const { term } = request as PseudoTtyInfo & { term?: string };
  const terminal: IPty = pty.spawn(file, args, {
    name: term || 'xterm-256color',
    cols: side(request.cols, 80),
    rows: side(request.rows, 24),
    cwd,
    env: { ...env, TERM: term || 'xterm-256color' },
    encoding: null,
  });
  const socket = (terminal as unknown as { _socket: Socket })._socket;
  keepUntilRead(socket);
  let over = false;
  const exited = new Promise<Exit>((resolve) => {
    terminal.onExit(({ exitCode, signal }) => {
      over = true;
      const name = signalName(signal);
      resolve({ code: name ? null : exitCode, signal: name });
    });
  });
  const output = pump(socket, channel, () => {});
  channel.on('data', (chunk: Buffer) => {
    if (!over && !socket.destroyed && !socket.write(chunk)) {
      channel.pause();
      socket.once('drain', () => channel.resume());
    }
  });
  const hangUp = () => {
    if (over) return;
    tellGroup(terminal.pid, 'SIGHUP');
    socket.resume();
    // Closing the terminal tells the job in its foreground.
    (terminal as IPty & { destroy?: () => void }).destroy?.();
  };
  return {
    ended: exited.then(async (exit) => {
      await output;
      return exit;
    }),
    signal: (name) => void tellGroup(terminal.pid, name),
    resize: (cols, rows) => {
      if (!over) terminal.resize(side(cols, 80), side(rows, 24));
    },
    hangUp,
  };
}
