import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { IPty } from '@lydell/node-pty';
import type { Exit } from '@ropewalk/kit';
import { trySignalGroup } from '../signals.ts';
import type { ProcessSpec } from '../workspace.ts';

declare global {
  /** Set by the single executable, which unpacks the native module before loading it. */
  var PLATFORM_LOAD_PTY: (() => Promise<typeof import('@lydell/node-pty')>) | undefined;
}

/** node-pty keeps a terminal's reading end open for this long after the program's end, in ms. */
const DRAIN_MS = 200;
const MAX_SIDE = 1_000;
const DEFAULT_TERM = 'xterm-256color';

export interface TerminalSize {
  cols: number;
  rows: number;
}

/** A program in its own terminal. */
export interface Terminal {
  /** Its output to read and its input to write. Pausing it slows the program down. */
  readonly socket: Socket;
  readonly exited: Promise<Exit>;
  /** Whether the program has ended. */
  readonly over: boolean;
  /** Signals its whole process group. */
  signal(signal: NodeJS.Signals): void;
  resize(size: TerminalSize): void;
  /** Reports to the terminal's programs that nobody is there any more. */
  hangUp(): void;
}

function side(value: number, fallback: number): number {
  return Number.isInteger(value) && value > 0 ? Math.min(value, MAX_SIDE) : fallback;
}

/** Limits both sides of a size. Returns 80×24 if they are invalid. */
export function usableSize({ cols, rows }: TerminalSize): TerminalSize {
  return { cols: side(cols, 80), rows: side(rows, 24) };
}

function signalName(number: number | undefined): NodeJS.Signals | null {
  if (!number) return null;
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

/**
 * Keeps output that the terminal still holds when its program ends while the client is slow. node-pty would drop it.
 */
function keepUntilRead(socket: Socket): void {
  const destroy = socket.destroy.bind(socket);
  socket.destroy = (err?: Error) => {
    if (!socket.isPaused() || err) return destroy(err);
    // an agent that got no processor meanwhile first reads what is there
    socket.once('resume', () => setTimeout(() => setImmediate(() => socket.destroy()), DRAIN_MS));
    return socket;
  };
}

/** Starts a program in a terminal of this size and type (default xterm-256color). */
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
    signal: (signal) => void trySignalGroup(terminal.pid, signal),
    resize(wanted) {
      if (over) return;
      const { cols, rows } = usableSize(wanted);
      terminal.resize(cols, rows);
    },
    hangUp() {
      if (over) return;
      trySignalGroup(terminal.pid, 'SIGHUP');
      socket.resume();
      // Closing the terminal signals its foreground job.
      (terminal as IPty & { destroy?: () => void }).destroy?.();
    },
  };
}
