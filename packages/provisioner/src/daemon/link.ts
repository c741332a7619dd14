import { AppError, backoff, type Clock, errorText, type Logger, RECONNECT } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { CAPABILITIES_HEADER, formatCapabilities, parseCapabilities } from '@ropewalk/wire/capabilities';
import { DrpcError } from '@ropewalk/wire/drpc/frames';
import { byteStream, type ClientTls, dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import { YamuxError, YamuxSession } from '@ropewalk/wire/yamux';
import { engineName, type TerraformBinary } from '../terraform/version.ts';
import type { Clients } from './clients.ts';

const API_VERSION = '1.8';
/** The code of a call that timed out on this side. */
const DRPC_TIMEOUT = 4;
const DIAL_TIMEOUT_MS = 30_000;

/** The credentials of a daemon. It uses the first one that is set. */
export interface DaemonAuth {
  sessionToken?: string | undefined;
  key?: string | undefined;
  psk?: string | undefined;
  /** The secret of the server's built-in daemons. It works only over `socketPath`. */
  installationSecret?: string | undefined;
  /** What built-in daemons whose server is gone show to the other servers of its deployment. They only finish their jobs. */
  ticket?: string | undefined;
}

/** The servers with which built-in daemons finish their jobs when their own server is gone. */
export interface Successors {
  /** Base URLs, `https://…`, in the order in which they are tried. */
  urls: readonly string[];
  ticket: string;
}

export interface LinkOptions {
  serverUrl: string;
  /** The server's own Unix socket. Only its built-in daemons use it. */
  socketPath?: string | undefined;
  organization: string;
  name: string;
  tags: Record<string, string>;
  auth: DaemonAuth;
  provisionerVersion: string;
  /** Additional headers, from `--header` options. */
  headers?: Record<string, string> | undefined;
  /** A client certificate and the authorities to trust. */
  tls?: ClientTls | undefined;
  log: Logger;
  clock: Clock;
}

export interface Connection {
  daemon: Clients['daemon'];
  /** Absent with an upstream server. */
  control: Clients['control'] | undefined;
  /** Whether `control.finish` exists. */
  finishes: boolean;
  /** Whether the server's errors have the codes of JOB_ERRORS. */
  coded: boolean;
  /** Fires when the connection has ended. */
  ended: AbortSignal;
}

/** The events that the link reports to its daemon. */
export interface LinkEvents {
  connected(connection: Connection): void;
  lost(): void;
  /** The server rejected this daemon for good. `ServerLink.rejected` has the reason. */
  rejected(): void;
}

/** The daemon's connection to its server. It reconnects until it is closed. */
export class ServerLink {
  readonly #options: LinkOptions;
  readonly #closing = new AbortController();
  #current: Connection | undefined;
  #session: YamuxSession | undefined;
  #next = Promise.withResolvers<Connection>();
  #lostAt: number;
  #rejected: AppError | undefined;
  #wasConnected = false;
  #loop: Promise<void> | undefined;
  #engines = '';
  readonly #tried = Promise.withResolvers<void>();
  #events: LinkEvents | undefined;
  #successors: Successors | undefined;
  /** How often a server of `#successors` was tried. */
  #attempts = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#lostAt = options.clock.monotonic();
    this.#next.promise.catch(() => {});
  }

  /** Connects as a daemon with these versions of Terraform. */
  start(engines: readonly TerraformBinary[]): void {
    this.#engines = engines.map(engineName).join(', ');
    this.#loop ??= this.#run();
  }

  /** Reports other versions of Terraform. The server reads them when a daemon connects, so this connects again. */
  async changeEngines(engines: readonly TerraformBinary[]): Promise<void> {
    this.#engines = engines.map(engineName).join(', ');
    await this.#session?.close('the versions of Terraform changed');
  }

  /** Resolves when the first attempt to connect has ended. */
  get tried(): Promise<void> {
    return this.#tried.promise;
  }

  /** Reports events from now on, and what is already the case. */
  report(events: LinkEvents): void {
    this.#events = events;
    if (this.#rejected) events.rejected();
    else if (this.#current) events.connected(this.#current);
  }

  /** The time without a connection, in ms. 0 while connected. */
  get awayMs(): number {
    return this.#current ? 0 : this.#options.clock.monotonic() - this.#lostAt;
  }

  /** Whether the daemon is closing the link. */
  get closing(): boolean {
    return this.#closing.signal.aborted;
  }

  /** The reason why the server rejected this daemon for good. Undefined if it did not. */
  get rejected(): AppError | undefined {
    return this.#rejected;
  }

  /**
   * The current or next connection. Rejects if the signal fires, the server rejects the daemon or the link is closed.
   */
  async connection(signal?: AbortSignal): Promise<Connection> {
    signal?.throwIfAborted();
    if (this.#current) return this.#current;
    return abortable(this.#next.promise, signal);
  }

  /**
   * Makes a call, and repeats it on the next connection if the connection breaks. Rejects with an error of the server.
   */
  async call<T>(run: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const waits = backoff({ baseMs: 25, ...RECONNECT });
    for (;;) {
      const connection = await this.connection(signal);
      try {
        return await run(connection);
      } catch (err) {
        signal?.throwIfAborted();
        if (this.#closing.signal.aborted || (!connection.ended.aborted && !isBroken(err))) throw err;
        this.#options.log.debug('connection lost during a call; repeating the call on the next connection', { err });
        await this.#options.clock.sleep(waits.next(), signal);
      }
    }
  }

  /**
   * Closes a connection, and connects again as after a loss. Our server returns its jobs that did not start to the
   * queue.
   */
  async drop(connection: Connection, reason: string): Promise<void> {
    if (connection === this.#current) await this.#session?.close(reason);
  }

  /** Connects to these servers from now on. */
  moveTo(successors: Successors): void {
    this.#successors = successors;
  }

  async close(): Promise<void> {
    this.#closing.abort(new AppError('canceled', 'The daemon has ended.'));
    await this.#session?.close();
    await this.#loop;
    this.#next.reject(this.#closing.signal.reason);
  }

  async #run(): Promise<void> {
    const { log, clock } = this.#options;
    const closing = this.#closing.signal;
    const waits = backoff({ baseMs: 50, factor: 1.62, ...RECONNECT });
    let said: string | undefined; // the same reason is logged once, not at each try
    while (!closing.aborted) {
      try {
        const { session, connection, end } = await this.#dial();
        waits.reset();
        said = undefined;
        this.#wasConnected = true;
        this.#session = session;
        this.#current = connection;
        log.info('connected to the server', { jobControl: connection.control !== undefined });
        // the line that operators know from upstream's daemon
        log.debug('provisioner: successfully connected to coderd');
        this.#next.resolve(connection);
        this.#tried.resolve();
        this.#events?.connected(connection);
        const { reason } = await session.closed;
        this.#next = Promise.withResolvers();
        this.#next.promise.catch(() => {});
        this.#lostAt = clock.monotonic();
        this.#current = undefined;
        end();
        this.#events?.lost();
        if (!closing.aborted) log.warn('connection to the server lost', { reason });
      } catch (err) {
        if (closing.aborted) return;
        const rejection = this.#rejection(err);
        if (rejection !== undefined) {
          this.#rejected = new AppError('forbidden', rejection);
          log.error('the server rejected this daemon; not trying again', { reason: dialText(err) });
          this.#next.reject(this.#rejected);
          this.#tried.resolve();
          this.#events?.rejected();
          return;
        }
        const reason = dialText(err);
        log[reason === said ? 'debug' : 'warn']('cannot connect to the server; trying again', { reason });
        said = reason;
      }
      this.#tried.resolve();
      await clock.sleep(waits.next(), closing).catch(() => {});
    }
  }

  /** The reason why another try cannot succeed. Undefined if it can. */
  #rejection(err: unknown): string | undefined {
    if (!(err instanceof WebSocketDialError)) return undefined;
    if (err.status === 403) return `The server rejected this daemon: ${dialText(err)}`;
    // A 404 from a proxy or for a wrong path is not about the organization. After a first connection, it may be
    // temporary.
    const texts = platformTexts(err.body);
    if (err.status === 404 && !this.#wasConnected && texts && !texts.some((text) => /route not found/i.test(text)))
      return `Organization ${JSON.stringify(this.#options.organization)} not found: ${dialText(err)}`;
    return undefined;
  }

  /** Where the next attempt connects, and what it shows there. */
  #target(): Pick<LinkOptions, 'serverUrl' | 'socketPath' | 'auth'> {
    if (!this.#successors) return this.#options;
    const { urls, ticket } = this.#successors;
    return { serverUrl: urls[this.#attempts++ % urls.length]!, auth: { ticket } };
  }

  async #dial() {
    const { organization, name, tags, provisionerVersion } = this.#options;
    const { serverUrl, socketPath, auth } = this.#target();
    const url = new URL(serverUrl);
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/api/v2/organizations/${encodeURIComponent(organization)}/provisionerdaemons/serve`;
    url.searchParams.append('version', API_VERSION);
    url.searchParams.append('provisioner', 'terraform');
    url.searchParams.append('name', name);
    for (const [key, value] of Object.entries(tags)) url.searchParams.append('tag', `${key}=${value}`);
    const { connection, responseHeaders } = await dialWebSocket(url, {
      ...this.#options.tls,
      headers: {
        ...this.#options.headers,
        'X-Coder-Build-Version': provisionerVersion,
        [CAPABILITIES_HEADER]: formatCapabilities(['job-control/1', 'job-finish/1', 'job-errors/1']),
        // upstream's server ignores it
        'Platform-Engines': this.#engines,
        ...authHeaders(auth),
      },
      signal: this.#closing.signal,
      timeoutMs: DIAL_TIMEOUT_MS,
      socketPath,
    });
    const session = new YamuxSession(byteStream(connection), { role: 'client' });
    // The server has registered this daemon. Loading the clients takes as long as connecting, so it comes after.
    const { daemon, control } = await this.#clientsOf(session);
    const offered = parseCapabilities(responseHeaders[CAPABILITIES_HEADER.toLowerCase()]);
    const ours = offered.has('job-control/1');
    const ended = new AbortController();
    return {
      session,
      connection: {
        daemon,
        control: ours ? control : undefined,
        finishes: offered.has('job-finish/1'),
        coded: offered.has('job-errors/1'),
        ended: ended.signal,
      },
      end: () => ended.abort(new AppError('unavailable', 'The connection to the server was lost.')),
    };
  }

  /** Closes the session if it fails, or if `close` was called meanwhile: `close` does not have the session yet. */
  async #clientsOf(session: YamuxSession): Promise<Clients> {
    try {
      const { clientsOf } = await import('./clients.ts');
      this.#closing.signal.throwIfAborted();
      return clientsOf(session);
    } catch (err) {
      await session.close();
      throw err;
    }
  }
}

function authHeaders(auth: DaemonAuth): Record<string, string> {
  if (auth.installationSecret) return { 'Platform-Installation-Secret': auth.installationSecret };
  if (auth.ticket) return { 'Platform-Daemon-Ticket': auth.ticket };
  if (auth.key) return { 'Coder-Provisioner-Daemon-Key': auth.key };
  if (auth.psk) return { 'Coder-Provisioner-Daemon-PSK': auth.psk };
  if (auth.sessionToken) return { 'Coder-Session-Token': auth.sessionToken };
  return {};
}

function dialText(err: unknown): string {
  if (!(err instanceof WebSocketDialError) || err.status === undefined) return errorText(err);
  const texts = platformTexts(err.body);
  return texts ? `${texts.join(' ')} (status ${err.status})` : `status ${err.status}`;
}

/** The texts of a platform's error. Undefined for other bodies, such as a proxy's page. */
function platformTexts(body: string): string[] | undefined {
  try {
    const { message, detail } = JSON.parse(body) as { message?: unknown; detail?: unknown };
    const texts = [message, detail].filter((text): text is string => typeof text === 'string' && text !== '');
    return texts.length > 0 ? texts : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a call failed because its connection broke, even if the loss is not noticed yet. */
function isBroken(err: unknown): boolean {
  // An error from the server or too long a message is final. A timeout is not: the server's database may be away.
  if (err instanceof DrpcError) return !err.remote && (err.code <= 1 || err.code === DRPC_TIMEOUT);
  // the server resets only the stream of a message that it rejects
  if (err instanceof YamuxError) return err.code !== 'reset';
  return /EOF|closed|reset|destroyed|ECONN|EPIPE|aborted|premature/i.test(errorText(err));
}
