import type { Duplex } from 'node:stream';
import { AppError, type Clock, errorText, isAppError, type Logger } from '@ropewalk/kit';
import { backoff } from '@ropewalk/kit/retry';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import { watchSilence } from '../http/heartbeat.ts';
import type { ServerLink } from './link.ts';

/** A terminal survives a server that is away for so long, as the server's own rule for grants has it. */
const AWAY_MS = 10 * 60_000;
/** So long it waits for its agent after the server is back. The agent connects again, too. */
const AGENT_MS = 30_000;
const RENEW_MS = 30_000;
/** Clears the screen and all modes of a terminal, before the agent draws it again. */
const RESET = Buffer.from('\x1bc');
const AWAY = Buffer.from('\r\n[The server cannot be reached. This terminal continues when it is back.]\r\n');
/** A longer message of a browser is input, not the size of its window. */
const MAX_SIZE_MESSAGE = 256;

export interface TerminalParts {
  link: ServerLink;
  clock: Clock;
  log: Logger;
}

/** What a visitor asked for. */
export interface TerminalRequest {
  /** The token of the grant. It is replaced while the terminal is open. */
  grant: string;
  query: Record<string, string>;
  ip: string;
  userAgent: string;
}

/** A terminal between a browser and an agent. While the server is away, the browser's connection stays open. */
export class ProxiedTerminal {
  readonly #parts: TerminalParts;
  readonly #request: TerminalRequest;
  readonly #ended = new AbortController();
  #connection: WebSocketConnection | undefined;
  #inside: Duplex | undefined;
  /** What the browser sent while no stream was open. */
  #waiting: Buffer[] = [];

  constructor(parts: TerminalParts, request: TerminalRequest) {
    this.#parts = parts;
    this.#request = { ...request, query: { ...request.query } };
  }

  /** Opens the terminal, before the browser's upgrade is answered. @throws AppError as the server answers */
  async open(signal: AbortSignal): Promise<void> {
    this.#inside = await this.#dial(signal);
  }

  /** Carries bytes until one side ends for good. Never rejects. */
  async serve(connection: WebSocketConnection): Promise<void> {
    this.#connection = connection;
    connection.on('binary', (message) => this.#fromBrowser(message));
    connection.on('text', (message) => this.#fromBrowser(Buffer.from(message)));
    connection.on('drain', () => this.#inside?.resume());
    connection.once('close', () => this.end());
    watchSilence(connection, { busy: () => false, end: (why) => connection.destroy(why) });
    const timer = setInterval(() => void this.#renew(), RENEW_MS);
    timer.unref();
    try {
      await this.#carryAll();
      connection.close(1000);
    } catch (err) {
      const why = isAppError(err) ? err.message : 'The terminal failed.';
      if (!isAppError(err)) this.#parts.log.warn('a terminal failed', { err: errorText(err) });
      connection.close(1011, why);
    } finally {
      clearInterval(timer);
      this.end();
    }
  }

  end(): void {
    this.#ended.abort(new AppError('canceled', 'The terminal was closed.'));
    this.#inside?.destroy();
  }

  /** Resolves when the shell has ended. @throws AppError if the terminal cannot be opened again */
  async #carryAll(): Promise<void> {
    for (;;) {
      if (await this.#carry(this.#inside!)) return;
      this.#ended.signal.throwIfAborted();
      this.#inside = undefined;
      if (this.#parts.link.problem !== undefined) this.#connection!.sendBinary(AWAY);
      this.#inside = await this.#again();
      this.#connection!.sendBinary(RESET);
      this.#flush();
    }
  }

  /** Carries the bytes of one stream. Resolves with whether it ended as a shell ends, or broke. */
  #carry(inside: Duplex): Promise<boolean> {
    return new Promise((resolve) => {
      let ended = false;
      inside.on('data', (bytes: Buffer) => {
        if (!this.#connection!.sendBinary(bytes)) inside.pause();
      });
      inside.on('drain', () => this.#connection!.resume());
      inside.on('end', () => {
        ended = true;
        inside.end();
      });
      inside.on('error', () => {});
      inside.once('close', () => resolve(ended));
      if (inside.destroyed) resolve(false);
    });
  }

  /** Opens a broken terminal again: when the server is back, and then its agent. */
  async #again(): Promise<Duplex> {
    const { link, clock } = this.#parts;
    const away = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(AWAY_MS)]);
    const wait = backoff({ baseMs: 250, capMs: 2_000 });
    let deadline: number | undefined;
    for (;;) {
      await link.up(away);
      deadline ??= clock.monotonic() + AGENT_MS;
      try {
        return await this.#dial(away);
      } catch (err) {
        away.throwIfAborted();
        if (!isAppError(err, 'unavailable')) throw err;
        // lost again: with its return, the wait for the agent starts again
        if (link.problem !== undefined) deadline = undefined;
        else if (clock.monotonic() > deadline) throw err;
      }
      await clock.sleep(wait.next(), away);
    }
  }

  async #dial(signal: AbortSignal): Promise<Duplex> {
    const inside = await this.#parts.link.open({ service: 'terminal', ...this.#request }, signal);
    inside.on('error', () => {});
    return inside;
  }

  #fromBrowser(message: Buffer): void {
    this.#noteSize(message);
    const inside = this.#inside;
    if (!inside || inside.destroyed) {
      this.#waiting.push(message);
      this.#connection!.pause();
    } else if (!inside.write(message)) this.#connection!.pause();
  }

  #flush(): void {
    for (const message of this.#waiting.splice(0)) this.#inside!.write(message);
    if (!this.#inside!.writableNeedDrain) this.#connection!.resume();
  }

  /** A terminal that is opened again has the size of now. */
  #noteSize(message: Buffer): void {
    if (message.length > MAX_SIZE_MESSAGE || !message.includes('"height"')) return;
    try {
      const { height, width } = JSON.parse(message.toString()) as { height?: unknown; width?: unknown };
      if (Number.isInteger(height)) this.#request.query['height'] = String(height);
      if (Number.isInteger(width)) this.#request.query['width'] = String(width);
    } catch {
      // the agent judges what it receives
    }
  }

  /** Takes a new grant while the old one is good for it. A visitor without permission loses the terminal. */
  async #renew(): Promise<void> {
    const { link } = this.#parts;
    try {
      const stream = await link.open({ service: 'renew', grant: this.#request.grant }, this.#ended.signal);
      let token = '';
      for await (const bytes of stream) token += (bytes as Buffer).toString('latin1');
      if (token !== '') this.#request.grant = token;
    } catch (err) {
      if (this.#ended.signal.aborted) return;
      if (isAppError(err, 'forbidden') || isAppError(err, 'not_found')) {
        this.#connection!.close(1008, err.message);
        this.end();
      } else this.#parts.log.debug('could not renew the grant of a terminal', { err: errorText(err) });
    }
  }
}
