import type { Logger } from '@ropewalk/kit';
import type { Log_Level } from '@ropewalk/wire/proto/agent';
import type { LogSender } from '../logs.ts';
import type { AgentOptions } from '../options.ts';
import type { Known } from './known.ts';
import { createLogSource } from './log-source.ts';

/** The logs of dev containers at the server. */
export class DevcontainerLogs {
  readonly #options: AgentOptions;
  readonly #sender: LogSender;
  readonly #log: Logger;
  #token = '';

  constructor(options: AgentOptions, sender: LogSender, log: Logger) {
    this.#options = options;
    this.#sender = sender;
    this.#log = log;
  }

  /** Sets the token with which log sources are created. */
  setToken(token: string): void {
    this.#token = token;
  }

  /**
   * Creates the log source of a dev container that has none yet.
   * @throws AppError `unavailable` if the server does not accept it
   */
  async open(one: Known): Promise<void> {
    one.logSource ??= await this.#createSource(`Dev Container (${one.name})`);
  }

  /** Writes a line to a dev container's log. Without a log source, only the agent's own log gets it. */
  write(of: Known, level: Log_Level, line: string): void {
    if (of.logSource) this.#sender.add(of.logSource, level, line);
    this.#log.debug('dev container', { name: of.name, line });
  }

  /** Writes a line to the log of a source. */
  add(logSource: Uint8Array, level: Log_Level, line: string): void {
    this.#sender.add(logSource, level, line);
  }

  /** Sends what waits. */
  flush(of: Known): void {
    if (of.logSource) void this.#sender.flush();
  }

  async #createSource(name: string): Promise<Uint8Array> {
    const headers = (await this.#options.headers?.()) ?? {};
    return createLogSource({ url: this.#options.url, token: this.#token, headers }, name);
  }
}
