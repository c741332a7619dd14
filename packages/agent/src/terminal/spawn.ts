import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { IPty } from '@lydell/node-pty';
import type { Exit } from '@platform/kit';
import { tellGroup } from '../signals.ts';
import type { ProcessSpec } from '../workspace.ts';

declare global {
  /** Set by the single executable, which unpacks the native part before it can be loaded. */
  var PLATFORM_LOAD_PTY: (() => Promise<typeof import('@lydell/node-pty')>) | undefined;
}

/** node-pty gives the reading end of a terminal this long after the program's end. */
const DRAIN_MS = 200;
const MAX_SIDE = 1_000;
const DEFAULT_TERM = 'xterm-256color';

export interface TerminalSize {
  cols: number;
  rows: number;
}

/** A program in a terminal of its own. */
export interface Terminal {
  /** Its output to read and its input to write; pausing it slows the program. */
  readonly socket: Socket;
  readonly exited: Promise<Exit>;
  /** Whether the program has ended. */
  readonly over: boolean;
  /** To its whole process group. */
  signal(signal: NodeJS.Signals): void;
  resize(size: TerminalSize): void;
  /** Nobody is there any more: the programs in it are told. */
  hangUp(): void;
}

function side(value: number, fallback: number): number {
  return Number.isInteger(value) && value > 0 ? Math.min(value, MAX_SIDE) : fallback;
}

/** Sides within bounds; 80×24 where they are none. */
export function usableSize({ cols, rows }: TerminalSize): TerminalSize {
  return { cols: side(cols, 80), rows: side(rows, 24) };
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

/** Starts a program in a terminal of this size and kind (xterm-256color). */
export async function spawnTerminal(spec: ProcessSpec, size: TerminalSize, term = ''): Promise<Terminal> {
  const pty = await (globalThis.PLATFORM_LOAD_PTY?.() ?? import('@lydell/node-pty'));
  const { file, args, env, cwd } = spec;
  const name = term || DEFAULT_TERM;
  const terminal: IPty = pty.spawn(file, args, {
    name,
    ...usableSize(size),
    cwd,
    env: { ...env, TERM: name },
    encoding: null,
  });
  const socket = (terminal as unknown as { _socket: Socket })._socket;
  keepUntilRead(socket);
  let over = false;
  const exited = new Promise<Exit>((resolve) => {
    terminal.onExit(({ exitCode, signal }) => {
      over = true;
      const by = signalName(signal);
      resolve({ code: by ? null : exitCode, signal: by });
    });
  });
  return {
    socket,
    exited,
    get over() {
      return over;
    },
    signal: (signal) => void tellGroup(terminal.pid, signal),
    resize(wanted) {
      if (over) return;
      const { cols, rows } = usableSize(wanted);
      terminal.resize(cols, rows);
    },
    hangUp() {
      if (over) return;
      tellGroup(terminal.pid, 'SIGHUP');
      socket.resume();
      // Closing the terminal tells the job in its foreground.
      (terminal as IPty & { destroy?: () => void }).destroy?.();
    },
  };
}
