import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Logger, UidBlock } from '@ropewalk/kit';
import { crashReason } from '@ropewalk/kit/crash-report';
import { type Crashes, createCrashes } from './crashes.ts';

/** How long a closing server waits for the process to end, in ms. */
const STOP_MS = 5_000;
/** What the daemons' process does with each signal. */
const SIGNALS = { drain: 'SIGTERM', cancel: 'SIGINT', kill: 'SIGQUIT' } as const;

export type DaemonsEnd = keyof typeof SIGNALS;

/** A later line on the standard input: the other servers of the deployment. Their daemons finish their jobs there. */
export interface BuiltinDaemonsUpdate {
  successors: { urls: string[]; ticket: string };
}

/**
 * The first line on the standard input of the daemons' process, so that secrets show in neither its arguments nor its
 * environment.
 */
export interface BuiltinDaemonsInput {
  serverUrl: string;
  /** The server's own socket, the only place where the secret works. */
  socketPath: string;
  count: number;
  namePrefix: string;
  cacheDir: string;
  terraformBinaries: string[];
  /** As `VERSION=URL#sha256:HEX`. */
  terraformDownloads: string[];
  terraformProvider: string;
  terraformBaseUrl: string;
  installationSecret: string;
  version: string;
  verbose: boolean;
  /** Values that no child may inherit under any name. */
  secretValues: string[];
  /** Absent: daemons and builds share the uid of this process. */
  isolation?: { uids: UidBlock; launcherPath: string; socketsDir: string } | undefined;
}

export interface DaemonsProcessOptions {
  /** The program and arguments that run the daemons and read BuiltinDaemonsInput. */
  command: readonly string[];
  input: BuiltinDaemonsInput;
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Called before the process is started again after an unexpected end. */
  beforeRestart(): void;
  log: Logger;
}

/** The process with the built-in daemons. It is started again whenever it ends, until `end` or `close`. */
export class DaemonsProcess {
  readonly #options: DaemonsProcessOptions;
  readonly #crashes: Crashes = createCrashes('The built-in provisioner daemons');
  #child: ChildProcess | undefined;
  #closing = false;
  #update = '';

  constructor(options: DaemonsProcessOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#closing) return;
    const { command, input, env, cwd, log } = this.#options;
    const [file, ...args] = command as [string, ...string[]];
    const child = spawn(file, args, { env, cwd, stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    this.#child = child;
    this.#crashes.started();
    let reason: string | undefined;
    child.on('error', (err) => {
      reason = err.message;
      log.error('could not start the built-in provisioner daemons', { err });
    });
    child.stdin.on('error', () => {});
    child.stdin.write(`${JSON.stringify(input)}\n${this.#update}`);
    child.stdout.on('error', () => {});
    createInterface({ input: child.stdout }).on('line', (line) => {
      reason = withoutSecrets(crashReason(line), [...input.secretValues, input.installationSecret]) ?? reason;
    });
    child.once('close', (code, signal) => this.#restartLater(code, signal, reason));
  }

  #restartLater(code: number | null, signal: NodeJS.Signals | null, reason: string | undefined): void {
    if (this.#closing) return;
    const { log, beforeRestart } = this.#options;
    const waitMs = this.#crashes.ended({ code, signal, reason });
    log.error('the built-in provisioner daemons ended unexpectedly: starting them again', {
      code,
      signal,
      reason,
      wait_ms: Math.round(waitMs),
    });
    setTimeout(() => {
      beforeRestart();
      this.start();
    }, waitMs);
  }

  /** Sends an update to the process, and to each that is started later. */
  announce(update: BuiltinDaemonsUpdate): void {
    const line = `${JSON.stringify(update)}\n`;
    if (line === this.#update) return;
    this.#update = line;
    this.#child?.stdin?.write(line);
  }

  /** What an operator should know while the process keeps ending. Undefined while it runs well. */
  problem(): string | undefined {
    return this.#crashes.problem();
  }

  /** Signals the process, if it runs, and resolves when it has ended. */
  async end(how: DaemonsEnd): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#closing = true;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.kill(SIGNALS[how]);
    await ended;
  }

  /** Waits a moment for the process to end; one that still has a run goes on by itself. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#crashes.close();
    const child = this.#child;
    if (!child) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_MS);
    });
    await Promise.race([this.end('drain'), late]);
    clearTimeout(timer);
    child.stdin?.end();
    child.unref();
  }
}

const withoutSecrets = (text: string | undefined, secrets: readonly string[]) =>
  secrets.filter((secret) => secret !== '').reduce((out, secret) => out?.replaceAll(secret, '[redacted]'), text);
