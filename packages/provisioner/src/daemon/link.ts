import { AppError, backoff, type Clock, errorText, type Logger, RECONNECT } from '@platform/kit';
import {
  byteStream,
  CAPABILITIES_HEADER,
  createDrpcClient,
  DrpcError,
  dialWebSocket,
  formatCapabilities,
  parseCapabilities,
  WebSocketDialError,
  YamuxError,
  YamuxSession,
} from '@platform/wire';
import { JobControl } from '@platform/wire/proto/platform_provisioner';
import { ProvisionerDaemon } from '@platform/wire/proto/provisionerd';

const API_VERSION = '1.8';
/** The code of a call that this side gave up waiting for. */
const DRPC_TIMEOUT = 4;
const DIAL_TIMEOUT_MS = 30_000;

/** How a daemon proves who it is; the first that is given counts. */
export interface DaemonAuth {
  sessionToken?: string | undefined;
  key?: string | undefined;
  psk?: string | undefined;
  /** Of the server's own built-in daemons. It works only over `socketPath`. */
  installationSecret?: string | undefined;
}

export interface LinkOptions {
  serverUrl: string;
  /** The server's own Unix socket, which its built-in daemons use. */
  socketPath?: string | undefined;
  organization: string;
  name: string;
  tags: Record<string, string>;
  auth: DaemonAuth;
  provisionerVersion: string;
  /** More headers, as the person's `--header` options say. */
  headers?: Record<string, string> | undefined;
  log: Logger;
  clock: Clock;
}

/** What our server takes and gives; a published one keeps to its own 4 MiB. */
const MOST_MESSAGE_BYTES = 128 * 1024 * 1024;

function clientsOf(session: YamuxSession) {
  const open = () => session.openStream();
  const limits = { maxMessageBytes: MOST_MESSAGE_BYTES };
  return {
    daemon: createDrpcClient(ProvisionerDaemon, open, limits),
    control: createDrpcClient(JobControl, open, limits),
  };
}

export interface Connection {
  daemon: ReturnType<typeof clientsOf>['daemon'];
  /** Absent when the server is a published one. */
  control: ReturnType<typeof clientsOf>['control'] | undefined;
  /** Fires when the connection has ended. */
  ended: AbortSignal;
}

/** What the link tells its daemon. */
export interface LinkEvents {
  connected(connection: Connection): void;
  lost(): void;
  /** The server will never have this daemon: `refused` says why. */
  refused(): void;
}

/** The daemon's connection to its server, made again whenever it is lost, until closed. */
export class ServerLink {
  readonly #options: LinkOptions;
  readonly #closing = new AbortController();
  #current: Connection | undefined;
  #session: YamuxSession | undefined;
  #next = Promise.withResolvers<Connection>();
  #lostAt: number;
  #refused: AppError | undefined;
  #wasConnected = false;
  #loop: Promise<void> | undefined;
  readonly #events: LinkEvents;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#events = events;
    this.#lostAt = options.clock.monotonic();
    this.#next.promise.catch(() => {});
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Milliseconds without a connection; 0 while there is one. */
  get awayMs(): number {
    return this.#current ? 0 : this.#options.clock.monotonic() - this.#lostAt;
  }

  /** Whether this side is ending it. */
  get closing(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Why the server will never have this daemon, if it said so. */
  get refused(): AppError | undefined {
    return this.#refused;
  }

  /** The connection, or the next one. Rejects when the signal fires, the server refuses for good or the link is closed. */
  async connection(signal?: AbortSignal): Promise<Connection> {
    signal?.throwIfAborted();
    if (this.#current) return this.#current;
    return abortable(this.#next.promise, signal);
  }

  /**
   * Makes a call, again on the next connection when the one in use breaks. An error that the server sent is final.
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
        this.#options.log.debug('call broken, waiting for a connection', { err });
        await this.#options.clock.sleep(waits.next(), signal);
      }
    }
  }

  /** Ends a connection. The next one is made as after a loss. Our server puts back what this one took and did not begin. */
  async drop(connection: Connection, reason: string): Promise<void> {
    if (connection === this.#current) await this.#session?.close(reason);
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
    let said: string | undefined; // a reason is told once, not with each try
    while (!closing.aborted) {
      try {
        const { session, connection, end } = await this.#dial();
        waits.reset();
        said = undefined;
        this.#wasConnected = true;
        this.#session = session;
        this.#current = connection;
        log.info('connected to the server', { jobControl: connection.control !== undefined });
        // what operators of the published daemon look for
        log.debug('provisioner: successfully connected to coderd');
        this.#next.resolve(connection);
        this.#events.connected(connection);
        const { reason } = await session.closed;
        this.#next = Promise.withResolvers();
        this.#next.promise.catch(() => {});
        this.#lostAt = clock.monotonic();
        this.#current = undefined;
        end();
        this.#events.lost();
        if (!closing.aborted) log.warn('connection to the server lost', { reason });
      } catch (err) {
        if (closing.aborted) return;
        const refusal = this.#refusal(err);
        if (refusal !== undefined) {
          this.#refused = new AppError('forbidden', refusal);
          log.error('the server will not have this daemon; it is not tried again', { reason: dialText(err) });
          this.#next.reject(this.#refused);
          this.#events.refused();
          return;
        }
        const reason = dialText(err);
        log[reason === said ? 'debug' : 'warn']('no connection to the server; it is tried again', { reason });
        said = reason;
      }
      await clock.sleep(waits.next(), closing).catch(() => {});
    }
  }

  /** Why it is no use to try again, if so. */
  #refusal(err: unknown): string | undefined {
    if (!(err instanceof WebSocketDialError)) return undefined;
    if (err.status === 403) return `The server refuses this daemon: ${dialText(err)}`;
    // a proxy's 404 is not the platform's, nor is that of a wrong path; and what was there once will be there again
    const texts = platformTexts(err.body);
    if (err.status === 404 && !this.#wasConnected && texts && !texts.some((text) => /route not found/i.test(text)))
      return `There is no organization ${JSON.stringify(this.#options.organization)} for it: ${dialText(err)}`;
    return undefined;
  }

  async #dial() {
    const { serverUrl, socketPath, organization, name, tags, auth, provisionerVersion } = this.#options;
    const url = new URL(serverUrl);
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/api/v2/organizations/${encodeURIComponent(organization)}/provisionerdaemons/serve`;
    url.searchParams.append('version', API_VERSION);
    url.searchParams.append('provisioner', 'terraform');
    url.searchParams.append('name', name);
    for (const [key, value] of Object.entries(tags)) url.searchParams.append('tag', `${key}=${value}`);
    const { connection, responseHeaders } = await dialWebSocket(url, {
      headers: {
        ...this.#options.headers,
        'X-Coder-Build-Version': provisionerVersion,
        [CAPABILITIES_HEADER]: formatCapabilities(['job-control/1']),
        ...authHeaders(auth),
      },
      signal: this.#closing.signal,
      timeoutMs: DIAL_TIMEOUT_MS,
      socketPath,
    });
    const session = new YamuxSession(byteStream(connection), { role: 'client' });
    const ours = parseCapabilities(responseHeaders[CAPABILITIES_HEADER.toLowerCase()]).has('job-control/1');
    const ended = new AbortController();
    const { daemon, control } = clientsOf(session);
    return {
      session,
      connection: { daemon, control: ours ? control : undefined, ended: ended.signal },
      end: () => ended.abort(new AppError('unavailable', 'The connection to the server was lost.')),
    };
  }
}

function authHeaders(auth: DaemonAuth): Record<string, string> {
  if (auth.installationSecret) return { 'Platform-Installation-Secret': auth.installationSecret };
  if (auth.key) return { 'Coder-Provisioner-Daemon-Key': auth.key };
  if (auth.psk) return { 'Coder-Provisioner-Daemon-PSK': auth.psk };
  if (auth.sessionToken) return { Cookie: `coder_session_token=${auth.sessionToken}` };
  return {};
}

function dialText(err: unknown): string {
  if (!(err instanceof WebSocketDialError) || err.status === undefined) return errorText(err);
  const texts = platformTexts(err.body);
  return texts ? `${texts.join(' ')} (status ${err.status})` : `status ${err.status}`;
}

/** What the platform says in a refusal; undefined for others' pages, a proxy's say. */
function platformTexts(body: string): string[] | undefined {
  try {
    const { message, detail } = JSON.parse(body) as { message?: unknown; detail?: unknown };
    const texts = [message, detail].filter((text): text is string => typeof text === 'string' && text !== '');
    return texts.length > 0 ? texts : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a call failed with its connection, which may not have been noticed as lost yet, and not by itself. */
function isBroken(err: unknown): boolean {
  // what the server said is final, and so is a message that is too long; not a time-out: its database may be away
  if (err instanceof DrpcError) return !err.remote && (err.code <= 1 || err.code === DRPC_TIMEOUT);
  // the server drops the stream alone of what it will not take
  if (err instanceof YamuxError) return err.code !== 'reset';
  return /EOF|closed|reset|destroyed|ECONN|EPIPE|aborted|premature/i.test(errorText(err));
}

/** A promise that also rejects when the signal fires. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
