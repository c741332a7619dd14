import type { Duplex } from 'node:stream';
import { AppError, type Clock, errorText, isAppError, type Logger } from '@ropewalk/kit';
import { backoff } from '@ropewalk/kit/retry';
import { permitIn, readLines } from '@ropewalk/wire/proxy-link';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import { watchSilence } from '../http/heartbeat.ts';
import type { AgentPaths } from './agent-paths.ts';
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

/** So long the first connection to an agent may take, before the link of the server carries the bytes. */
const INVITED_MS = 2_000;

export interface TerminalParts {
  link: ServerLink;
  paths: AgentPaths;
  clock: Clock;
  log: Logger;
}

/** What a visitor asked for. */
export interface TerminalRequest {
  agentId: string;
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
  /** The server's news of a terminal whose bytes the agent's own connection carries. */
  #news: Duplex | undefined;
  /** What the browser sent while no stream was open. */
  #waiting: Buffer[] = [];
  #isPaused = false;

  constructor(parts: TerminalParts, request: TerminalRequest) {
    this.#parts = parts;
    this.#request = { ...request, query: { ...request.query } };
  }

  /** Opens the terminal, before the browser's upgrade is answered. @throws AppError as the server answers */
  async open(signal: AbortSignal): Promise<void> {
    try {
      this.#inside = await this.#dial(signal);
    } catch (err) {
      this.end();
      throw err;
    }
  }

  /** Carries bytes until one side ends for good. Never rejects. */
  async serve(connection: WebSocketConnection): Promise<void> {
    this.#connection = connection;
    connection.on('binary', (message) => this.#fromBrowser(message));
    connection.on('text', (message) => this.#fromBrowser(Buffer.from(message)));
    connection.on('drain', () => this.#inside?.resume());
    connection.once('close', () => this.end());
    // answers to pings are not read while input waits
    watchSilence(connection, { busy: () => this.#isPaused, end: (why) => connection.destroy(why) });
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
    this.#dropNews();
  }

  #dropNews(): void {
    const news = this.#news;
    this.#news = undefined;
    news?.destroy();
  }

  /** Resolves when the shell has ended. @throws AppError if the terminal cannot be opened again */
  async #carryAll(): Promise<void> {
    for (;;) {
      if (await this.#carry(this.#inside!)) return;
      this.#ended.signal.throwIfAborted();
      this.#inside = undefined;
      this.#dropNews();
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
      inside.on('drain', () => this.#pause(false));
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

  /** The agent's own connection is the shorter way. The link of the server always works. */
  async #dial(signal: AbortSignal): Promise<Duplex> {
    const { link, paths } = this.#parts;
    const { agentId, ...request } = this.#request;
    await Promise.race([paths.invite(agentId, request.grant), this.#parts.clock.sleep(INVITED_MS, signal)]);
    const inside =
      (paths.has(agentId) ? await this.#dialDirectly(signal) : undefined) ??
      (await link.open({ service: 'terminal', ...request }, signal));
    inside.on('error', () => {});
    return inside;
  }

  async #dialDirectly(signal: AbortSignal): Promise<Duplex | undefined> {
    const permit = await this.#listen(signal);
    const inside = permit && (await this.#parts.paths.open(this.#request.agentId, permit, signal));
    if (inside) return inside;
    this.#dropNews();
    return undefined;
  }

  /**
   * Asks the server for a permit, and follows its news. While the server is away, the terminal continues, and asks again when
   * it is back.
   * @returns undefined if the agent does not connect to proxies
   * @throws AppError as the server answers
   */
  async #listen(signal: AbortSignal): Promise<string | undefined> {
    const { link, paths } = this.#parts;
    const { agentId, ...request } = this.#request;
    const news = await link.open({ service: 'permit', ...request }, signal).catch((err) => {
      if (isAppError(err, 'unsupported')) return undefined;
      throw err;
    });
    if (!news) return undefined;
    this.#news = news;
    news.on('error', () => {});
    const first = Promise.withResolvers<string | undefined>();
    readLines(news, (line) => {
      const permit = permitIn(line);
      if (permit !== undefined) {
        this.#request.grant = permit;
        first.resolve(permit);
        paths.renew(agentId, permit);
      } else if (line === 'ended') this.#revoked('Your permission to use this was revoked.');
    });
    news.once('close', () => {
      first.resolve(undefined);
      if (this.#news === news) void this.#listenAgain();
    });
    return first.promise;
  }

  /** After the link was lost. Never rejects. */
  async #listenAgain(): Promise<void> {
    const away = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(AWAY_MS)]);
    const wait = backoff({ baseMs: 250, capMs: 2_000 });
    while (!away.aborted && this.#news) {
      try {
        await this.#parts.link.up(away);
        await this.#listen(away);
        return;
      } catch (err) {
        if (isAppError(err) && err.code !== 'unavailable') return this.#revoked(err.message);
        await this.#parts.clock.sleep(wait.next(), away).catch(() => {});
      }
    }
  }

  #revoked(why: string): void {
    if (this.#ended.signal.aborted) return;
    this.#connection?.close(1008, why);
    this.end();
  }

  #fromBrowser(message: Buffer): void {
    this.#noteSize(message);
    const inside = this.#inside;
    if (!inside || inside.destroyed) {
      this.#waiting.push(message);
      this.#pause(true);
    } else if (!inside.write(message)) this.#pause(true);
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (isPaused) this.#connection!.pause();
    else this.#connection!.resume();
  }

  #flush(): void {
    for (const message of this.#waiting.splice(0)) this.#inside!.write(message);
    if (!this.#inside!.writableNeedDrain) this.#pause(false);
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

  /**
   * Takes a new grant while the old one is good for it. A visitor without permission loses the terminal. News have permits,
   * which replace the grant.
   */
  async #renew(): Promise<void> {
    const { link } = this.#parts;
    if (this.#news) return;
    try {
      const stream = await link.open({ service: 'renew', grant: this.#request.grant }, this.#ended.signal);
      let token = '';
      for await (const bytes of stream) token += (bytes as Buffer).toString('latin1');
      if (token !== '') this.#request.grant = token;
    } catch (err) {
      if (this.#ended.signal.aborted) return;
      if (isAppError(err, 'forbidden') || isAppError(err, 'not_found')) this.#revoked(err.message);
      else this.#parts.log.debug('could not renew the grant of a terminal', { err: errorText(err) });
    }
  }
}
