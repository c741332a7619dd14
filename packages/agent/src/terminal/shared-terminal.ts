import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import type { TerminalInput, TerminalInputParser } from './input.ts';
import { Scrollback } from './scrollback.ts';
import type { Terminal, TerminalSize } from './spawn.ts';

const SCROLLBACK_BYTES = 1024 * 1024;
/** A viewer with this many unread bytes is behind. */
const BEHIND_BYTES = 512 * 1024;
/** A viewer that is behind and reads nothing for this long is gone, in ms. */
const STUCK_MS = 30_000;
/** How long a viewer may take to end its side after the program's end, in ms. */
const LEAVE_MS = 5_000;
/** How much scrollback a viewer gets after losing output. */
const REPLAY_BYTES = 128 * 1024;
/** Clears a viewer's screen and scrollback, and says why. */
const SKIPPED = Buffer.from(
  '\x1bc\x1b[2m[This connection is slow. Some output was skipped; the latest follows.]\x1b[0m\r\n',
);

interface Viewer {
  stream: Duplex;
  size: TerminalSize;
  behind: boolean;
  missed: boolean;
  watch?: NodeJS.Timeout;
}

export interface SharedTerminalOptions {
  terminal: Terminal;
  /** How long the terminal lives without viewers, in ms. */
  idleMs: number;
  carried(received: number, sent: number): void;
}

/**
 * A terminal that any number of viewers share. All see the same output and all may type. Its size follows the viewer
 * who resized or typed last. A viewer who joins later sees the scrollback first. A viewer that does not keep up loses
 * the middle, sees a note about it, and holds nobody else up. When all are behind, the program waits.
 */
export class SharedTerminal {
  readonly #terminal: Terminal;
  readonly #options: SharedTerminalOptions;
  readonly #viewers = new Set<Viewer>();
  readonly #scrollback = new Scrollback(SCROLLBACK_BYTES);
  #idle: NodeJS.Timeout | undefined;
  #size: TerminalSize | undefined;
  #over = false;
  /** Resolves when the program has ended and the viewers have been sent its last output. */
  readonly ended: Promise<void>;

  constructor(options: SharedTerminalOptions) {
    this.#options = options;
    this.#terminal = options.terminal;
    const { socket, exited } = options.terminal;
    socket.on('data', (chunk: Buffer) => this.#output(chunk));
    socket.on('error', () => {});
    const drained = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    this.ended = exited.then(async () => {
      await drained;
      this.#over = true;
      clearTimeout(this.#idle);
      for (const { stream } of this.#viewers) finish(stream);
    });
    this.#waitForViewers();
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Attaches one more viewer. Resolves when the viewer is gone, with the reason if the agent ended the stream. */
  attach(stream: Duplex, parser: TerminalInputParser, size: TerminalSize): Promise<string> {
    clearTimeout(this.#idle);
    const viewer: Viewer = { stream, size, behind: false, missed: false };
    this.#viewers.add(viewer);
    this.#use(viewer);
    const past = this.#scrollback.replay();
    if (past.length > 0) this.#send(viewer, past);
    if (this.#over) finish(stream);
    let reason = '';
    stream.on('data', (chunk: Buffer) => {
      this.#options.carried(chunk.length, 0);
      try {
        for (const input of parser.write(chunk)) this.#input(viewer, input);
      } catch (err) {
        reason = err instanceof AppError ? err.message : errorText(err);
        stream.destroy();
      }
    });
    stream.resume();
    stream.on('drain', () => this.#caughtUp(viewer));
    stream.on('error', () => {});
    // A viewer that ended its input is gone.
    stream.on('end', () => stream.end());
    return new Promise((resolve) => {
      stream.once('close', () => {
        clearInterval(viewer.watch);
        this.#viewers.delete(viewer);
        if (this.#viewers.size === 0 && !this.#over) this.#waitForViewers();
        this.#flow();
        resolve(reason);
      });
    });
  }

  hangUp(): void {
    clearTimeout(this.#idle);
    this.#terminal.hangUp();
  }

  #waitForViewers(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.hangUp(), this.#options.idleMs).unref();
  }

  #input(viewer: Viewer, { data, width, height }: TerminalInput): void {
    if (width !== undefined) viewer.size = { ...viewer.size, cols: width };
    if (height !== undefined) viewer.size = { ...viewer.size, rows: height };
    this.#use(viewer);
    const { socket } = this.#terminal;
    if (data === undefined || this.#terminal.over || socket.destroyed) return;
    // The terminal accepts no more for now. Only the viewer who pasted this waits.
    if (!socket.write(data) && !viewer.stream.isPaused()) {
      viewer.stream.pause();
      socket.once('drain', () => viewer.stream.resume());
    }
  }

  #use({ size }: Viewer): void {
    if (size.cols === this.#size?.cols && size.rows === this.#size.rows) return;
    this.#size = size;
    this.#terminal.resize(size);
  }

  #output(chunk: Buffer): void {
    this.#scrollback.add(chunk);
    for (const viewer of this.#viewers) {
      if (viewer.behind) viewer.missed = true;
      else this.#send(viewer, chunk);
    }
    this.#flow();
  }

  #send(viewer: Viewer, bytes: Buffer): void {
    const { stream } = viewer;
    if (stream.destroyed || stream.writableEnded) return;
    stream.write(bytes);
    this.#options.carried(0, bytes.length);
    if (stream.writableLength <= BEHIND_BYTES) return;
    viewer.behind = true;
    let left = stream.writableLength;
    viewer.watch = setInterval(() => {
      if (stream.writableLength >= left) stream.destroy();
      left = stream.writableLength;
    }, STUCK_MS).unref();
  }

  #caughtUp(viewer: Viewer): void {
    if (!viewer.behind) return;
    viewer.behind = false;
    clearInterval(viewer.watch);
    if (viewer.missed) {
      viewer.missed = false;
      this.#send(viewer, Buffer.concat([SKIPPED, this.#scrollback.replay(REPLAY_BYTES)]));
    }
    this.#flow();
  }

  /** Pauses the program while nobody reads its output. */
  #flow(): void {
    const { socket } = this.#terminal;
    const waits = this.#viewers.size > 0 && [...this.#viewers].every(({ behind }) => behind);
    if (waits) socket.pause();
    else socket.resume();
  }
}

function finish(stream: Duplex): void {
  stream.end();
  const timer = setTimeout(() => stream.destroy(), LEAVE_MS);
  stream.once('close', () => clearTimeout(timer));
}
