import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import type { Duplex } from 'node:stream';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import {
  CAPABILITIES_HEADER,
  type Capability,
  formatCapabilities,
  parseCapabilities,
} from '@ropewalk/wire/capabilities';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State, Log_Level, Timing_Stage } from '@ropewalk/wire/proto/agent';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { uuidText } from '@ropewalk/wire/uuid';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { type Activity, createActivity } from './activity.ts';
import { reportAppHealth } from './app-health.ts';
import { createDevcontainers, type Devcontainers } from './containers/devcontainers.ts';
import { containersService, devcontainerService } from './containers/services.ts';
import { expandPath } from './environment.ts';
import { linkExecutable } from './executable.ts';
import { deriveHostKey } from './host-key.ts';
import { tokenByIdentity } from './identity.ts';
import { createLifecycle, type Lifecycle } from './lifecycle.ts';
import { type LocalSocket, startLocalSocket } from './local-socket/server.ts';
import { createLogSender, type LogSender } from './logs.ts';
import { createMetadataReporter, type MetadataReporter } from './metadata.ts';
import { createAgentMetrics } from './metrics.ts';
import type { AgentOptions } from './options.ts';
import { ProxyConnections } from './proxies/proxy-connections.ts';
import { type Disconnected, reconnect } from './reconnect.ts';
import { awaitReinit, reinitService } from './reinit.ts';
import { reportResources } from './resources.ts';
import { createScripts, type ScriptOutcome, type Scripts } from './scripts.ts';
import { secretsService, writeSecretFiles } from './secrets.ts';
import { connectionOf } from './services/connection.ts';
import { forgetService } from './services/forget.ts';
import { moveService } from './services/move.ts';
import { pingService } from './services/ping.ts';
import { portsService } from './services/ports.ts';
import { type PtyService, ptyService } from './services/pty.ts';
import type { Services } from './services/service.ts';
import { speedtestService } from './services/speedtest.ts';
import { tcpService } from './services/tcp.ts';
import { udpService } from './services/udp.ts';
import { createSshServer, type SshServer } from './ssh/server.ts';
import { TailnetMembership } from './tailnet/membership.ts';
import { serveTunnel } from './tunnels.ts';
import type { AgentClient, Manifest, Routine } from './wire-types.ts';
import { createWorkspace, type Workspace } from './workspace.ts';

/** Upstream uses 256 KiB. A larger window gives more throughput between our own parts. */
const OUR_WINDOW = 1024 * 1024;
/** How much all windows of the connection may grow together on a connection with a long round trip. */
const WINDOW_GROWTH = 64 * 1024 * 1024;
const HOST_KEY_HEADER = 'Platform-Ssh-Host-Key';
/** The deadline for the last reports at shutdown, and for stop scripts without a timeout. */
const LAST_REPORTS_MS = 5_000;
const STOP_SCRIPTS_MS = 5 * 60_000;

const OFFERED: Capability[] = ['tunnel/1', 'resume/1', 'tailnet/1', 'direct/1', 'proxy/1', 'proxy-path/1'];

/** The log source of the agent's own lines. The server knows it. */
const NO_SOURCE = new Uint8Array(16);

/**
 * One run of the agent: from its first manifest until it stops or starts over. It connects, serves each connection, starts
 * with the first manifest, and ends by `stop` or `end`.
 */
export class AgentLife {
  /** Resolves when the agent has stopped. Never rejects: the agent logs failures and retries. */
  readonly done: Promise<void>;
  readonly #options: AgentOptions;
  readonly #log: Logger;
  readonly #startOver: (reason: string) => void;
  readonly #stopping = new AbortController();
  readonly #ended = new AbortController();
  readonly #lifecycle: Lifecycle = createLifecycle();
  readonly #metrics = createAgentMetrics();
  readonly #activity: Activity = createActivity(this.#metrics);
  readonly #sessions = new ResumableSessions();
  readonly #logs: LogSender;
  readonly #devcontainers: Devcontainers;
  readonly #scripts: Scripts;
  readonly #metadata: MetadataReporter;
  readonly #ssh: SshServer;
  readonly #pty: PtyService;
  readonly #tailnet: TailnetMembership;
  readonly #proxies: ProxyConnections;
  readonly #local: LocalSocket | undefined;
  readonly #services: Services;
  /** The token of the current connection. */
  #token = '';
  /** The token with which the current manifest was fetched. */
  #tokenOfWorkspace = '';
  #workspace: Workspace | undefined;
  /** The calls of the current connection, and its end. */
  #connected: { client: AgentClient; signal: AbortSignal } | undefined;
  /** Resolves when the last manifest so far was applied: an older one must not replace the secrets of a newer one. */
  #applied: Promise<unknown> = Promise.resolve();
  /** Resolves when the start scripts have ended. */
  #started: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | undefined;

  constructor(options: AgentOptions, startOver: (reason: string) => void) {
    const { log } = options;
    this.#options = options;
    this.#log = log;
    this.#startOver = startOver;
    this.#logs = createLogSender(options.logPatienceMs);
    this.#devcontainers = createDevcontainers({ options, logs: this.#logs, log });
    this.#scripts = createScripts({ logs: this.#logs, log, metrics: this.#metrics }, ({ id, logSourceId }) =>
      this.#devcontainers.start(uuidText(id), logSourceId),
    );
    this.#metadata = createMetadataReporter(options.metadataPaceMs);
    this.#ssh = createSshServer({ log, options, activity: this.#activity });
    this.#pty = ptyService(this.#activity, this.#lifecycle);
    this.#tailnet = this.#createTailnet();
    this.#proxies = new ProxyConnections({ services: () => this.#services, sessions: this.#sessions, log });
    this.#local = options.socketPath ? startLocalSocket({ wanted: options.socketPath, log }) : undefined;
    this.#services = this.#createServices();
    // last: the first connection uses all fields
    this.done = reconnect(options, () => this.#connect(), this.#ended.signal);
  }

  /** Runs stop scripts, reports to the server, and ends sessions and the connection. */
  stop(): Promise<void> {
    this.#stopped ??= this.#shutDown();
    return this.#stopped;
  }

  /** Ends everything immediately, without stop scripts or last reports. */
  async end(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#scripts.close(), this.#devcontainers.close()]);
    await this.#close();
  }

  /** What clients can ask for over tunnels. */
  #createServices(): Services {
    return new Map([
      ['ssh', ({ request, accept }) => this.#ssh.serve(accept(), connectionOf(request))],
      ['tcp', tcpService(this.#activity)],
      ['watch', this.#metadata.watch],
      ['reinit', reinitService(this.#startOver)],
      ['secrets', secretsService(() => this.#refreshSecrets())],
      ['udp', udpService(this.#activity)],
      ['pty', this.#pty.serve],
      ['ports', portsService()],
      ['containers', containersService(this.#devcontainers)],
      ['devcontainer', devcontainerService(this.#devcontainers)],
      ['ping', pingService],
      ['forget', forgetService(this.#sessions)],
      ['speedtest', speedtestService],
      ['tailnet', this.#tailnet.serve],
      ['proxy', this.#proxies.serve],
    ]);
  }

  #createTailnet(): TailnetMembership {
    return new TailnetMembership({
      options: this.#options,
      log: this.#log,
      services: {
        ssh: this.#ssh,
        pty: this.#pty.serve,
        devcontainers: this.#devcontainers,
        activity: this.#activity,
        sessions: this.#sessions,
      },
    });
  }

  /** Connects and works over the connection until it ends or another one replaces it. Rejects if it cannot connect. */
  async #connect(): Promise<Disconnected> {
    this.#token = await readToken(this.#options);
    const { connection, tunnels } = await this.#dial();
    this.#metadata.setQuiet(tunnels);
    this.#logs.setNumbered(tunnels);
    const moved = Promise.withResolvers<'moved'>();
    const session = this.#openSession(byteStream(connection), tunnels, () => moved.resolve('moved'));
    const end = () => void session.close();
    this.#ended.signal.addEventListener('abort', end, { once: true });
    if (this.#ended.signal.aborted) end();
    this.#log.info('connected to the server', { tunnels });
    const connected = new AbortController();
    this.#tailnet.setConnection(session, tunnels);
    const client: AgentClient = createDrpcClient(Agent, () => session.openStream());
    this.#connected = { client, signal: connected.signal };
    this.#local?.setServer(client);
    void session.closed.then(({ reason }) => {
      this.#local?.unsetServer(client);
      this.#ended.signal.removeEventListener('abort', end);
      this.#log.info('disconnected from the server', { reason });
    });
    // This server announces a new owner over a tunnel.
    if (!tunnels) await this.#listenForReinit(connected.signal);
    const work = together(connected.signal, client, [this.#steady, reportResources, banners]).catch((err) => {
      if (connected.signal.aborted) return;
      this.#log.warn('a call to the server failed, reconnecting', { err: errorText(err) });
      void session.close();
    });
    const close = await Promise.race([session.closed, moved.promise]);
    this.#tailnet.unsetConnection(session);
    if (close === 'moved') this.#log.info('moving to another server');
    const reason = close === 'moved' ? 'the agent moves to another server' : `the connection ended: ${close.reason}`;
    connected.abort(new Error(reason));
    await work;
    return close;
  }

  /** Opens the WebSocket. `tunnels`: whether the server is one of ours, which opens tunnels. */
  async #dial() {
    const hostKey = deriveHostKey(this.#token);
    this.#ssh.setHostKey(hostKey);
    const url = new URL('/api/v2/workspaceagents/me/rpc?version=2.6', this.#options.url);
    const { connection, responseHeaders } = await dialWebSocket(url, {
      ...this.#options.tls,
      signal: this.#ended.signal,
      headers: {
        ...(await this.#options.headers?.()),
        Cookie: `coder_session_token=${this.#token}`,
        [CAPABILITIES_HEADER]: formatCapabilities(OFFERED),
        [HOST_KEY_HEADER]: hostKey.publicBlob.toString('base64'),
      },
    });
    const tunnels = parseCapabilities(responseHeaders['platform-capabilities']).has('tunnel/1');
    return { connection, tunnels };
  }

  #openSession(stream: Duplex, tunnels: boolean, onMove: () => void): YamuxSession {
    const services: Services = new Map([...this.#services, ['move', moveService(onMove)]]);
    const context = { services, sessions: this.#sessions, activity: this.#activity, log: this.#log };
    return new YamuxSession(stream, {
      role: 'client',
      ...(tunnels
        ? {
            maxWindow: OUR_WINDOW,
            growth: WINDOW_GROWTH,
            onStream: (opened) => void serveTunnel(opened, context),
          }
        : {}),
    });
  }

  /** Starts over when the server announces a new owner. Resolves when it listens. */
  async #listenForReinit(connected: AbortSignal): Promise<void> {
    const { url } = this.#options;
    const source = { url, token: this.#token, headers: (await this.#options.headers?.()) ?? {}, log: this.#log };
    awaitReinit(source, connected).then(this.#startOver, () => {});
  }

  /** Fetches the manifest, applies it, and reports until the connection ends. The first manifest starts the workspace. */
  readonly #steady: Routine = async (client, signal) => {
    const isFirst = this.#workspace === undefined;
    const workspace = await this.#afterManifests(async () => {
      const manifest = await client.getManifest({}, { signal });
      return this.#isOfNewOwner(manifest) ? undefined : this.#apply(manifest, client, signal);
    });
    if (!workspace) {
      this.#startOver('the workspace has a new owner');
      return;
    }
    if (isFirst) {
      await linkExecutable(this.#options, tmpdir());
      this.#started = this.#start(workspace).catch((err) => this.#log.error('start failed', { err: errorText(err) }));
    }
    await together(signal, client, [
      this.#lifecycle.run,
      this.#logs.run,
      this.#scripts.report,
      this.#devcontainers.run,
      this.#activity.reportStats,
      this.#activity.reportConnections,
      (calls, until) => this.#metadata.report(workspace, calls, until),
      (calls, until) => reportAppHealth(workspace, calls, until),
    ]);
  };

  /** A build renews the token, except for a claim: its announcement was missed while the connection was down. */
  #isOfNewOwner({ agentId }: Manifest): boolean {
    const last = this.#workspace?.manifest;
    return last !== undefined && this.#tokenOfWorkspace === this.#token && Buffer.compare(last.agentId, agentId) !== 0;
  }

  /** Makes a manifest the current one, and reports the agent's version to the server. */
  async #apply(manifest: Manifest, client: AgentClient, signal: AbortSignal): Promise<Workspace> {
    const { version, subsystems = [] } = this.#options;
    this.#tokenOfWorkspace = this.#token;
    const { secrets } = manifest;
    // only what needs them gets them
    manifest.secrets = [];
    const workspace = createWorkspace(this.#options, this.#token, manifest, await this.#local?.path);
    this.#workspace = workspace;
    await this.#setSecrets(workspace, secrets);
    const expandedDirectory = expandPath(manifest.directory, workspace.account, workspace.environment());
    await client.updateStartup({ startup: { version, expandedDirectory, subsystems } }, { signal });
    this.#ssh.setWorkspace(workspace);
    this.#pty.setWorkspace(workspace);
    this.#devcontainers.setWorkspace(workspace, this.#token);
    this.#tailnet.setWorkspace(workspace);
    return workspace;
  }

  async #setSecrets(workspace: Workspace, secrets: Manifest['secrets']): Promise<void> {
    workspace.setSecrets(secrets);
    await writeSecretFiles(secrets, workspace.account.home, this.#log);
  }

  /** Fetches the secrets again. Running processes keep the old ones. */
  #refreshSecrets(): Promise<void> {
    return this.#afterManifests(async () => {
      const workspace = this.#workspace;
      // the manifest of the next connection has them
      if (!workspace || !this.#connected) return;
      const { client, signal } = this.#connected;
      const { secrets, agentId } = await client.getManifest({}, { signal });
      if (Buffer.compare(agentId, workspace.manifest.agentId) === 0) await this.#setSecrets(workspace, secrets);
    });
  }

  /** Fetches and applies a manifest when the earlier ones were applied. */
  #afterManifests<T>(apply: () => Promise<T>): Promise<T> {
    const applied = this.#applied.then(apply);
    this.#applied = applied.catch(() => {});
    return applied;
  }

  /** Runs the start scripts and begins what follows them. */
  async #start(workspace: Workspace): Promise<void> {
    this.#lifecycle.set(Lifecycle_State.STARTING);
    const from = performance.now();
    const outcome = await this.#scripts.runStage(workspace, Timing_Stage.START);
    this.#metrics.started(outcome === 'ok', performance.now() - from);
    if (this.#stopping.signal.aborted) return;
    this.#devcontainers.settled();
    this.#reportMissingDirectory(workspace);
    this.#finish(outcome, Lifecycle_State.READY, Lifecycle_State.START_ERROR, Lifecycle_State.START_TIMEOUT);
    this.#scripts.startCron(workspace);
  }

  /** Logs that the agent's directory is missing. Runs after the start scripts, because they often create it. */
  #reportMissingDirectory(workspace: Workspace): void {
    const env = workspace.environment();
    const wanted = expandPath(workspace.manifest.directory, workspace.account, env);
    const used = workspace.directory(env);
    if (used === wanted) return;
    this.#log.warn("the agent's directory does not exist", { directory: wanted, instead: used });
    this.#logs.add(NO_SOURCE, Log_Level.WARN, `The directory "${wanted}" does not exist. Sessions start in "${used}".`);
  }

  async #shutDown(): Promise<void> {
    this.#stopping.abort();
    this.#lifecycle.set(Lifecycle_State.SHUTTING_DOWN);
    if (this.#workspace) {
      const { OFF, SHUTDOWN_ERROR, SHUTDOWN_TIMEOUT } = Lifecycle_State;
      const outcome = await within(this.#scripts.runStage(this.#workspace, Timing_Stage.STOP), STOP_SCRIPTS_MS);
      this.#finish(outcome ?? 'timed_out', OFF, SHUTDOWN_ERROR, SHUTDOWN_TIMEOUT);
      await Promise.all([this.#scripts.close(), this.#devcontainers.close()]);
      await this.#started;
      await within(Promise.all([this.#logs.flush(), this.#lifecycle.reported()]), LAST_REPORTS_MS);
    }
    await this.#close();
  }

  /** Enters the state that a stage's outcome leads to. */
  #finish(outcome: ScriptOutcome, ok: Lifecycle_State, failed: Lifecycle_State, late: Lifecycle_State): void {
    this.#lifecycle.set(outcome === 'ok' ? ok : outcome === 'failed' ? failed : late);
  }

  /** Ends sessions and the connection, and connects no more. */
  async #close(): Promise<void> {
    this.#sessions.close();
    this.#ssh.close();
    this.#pty.close();
    this.#proxies.close();
    await this.#tailnet.close();
    this.#ended.abort();
    await Promise.all([this.done, this.#local?.close()]);
  }
}

/**
 * Returns the token for the next connection: the given one, the one in the file, or a new one for a proof of the
 * machine's identity.
 */
async function readToken(options: AgentOptions): Promise<string> {
  const { auth = 'token' } = options;
  if (auth !== 'token') return tokenByIdentity(options, auth);
  const token = options.token ?? (await readFile(options.tokenFile ?? '', 'utf8')).trim();
  if (token === '') throw new AppError('invalid', 'The agent token is empty.');
  return token;
}

/** Fetches banners. Only upstream's agent shows them in terminals, but an upstream server records that we asked. */
const banners: Routine = async (client, signal) => {
  await client.getAnnouncementBanners({}, { signal });
};

/** Runs routines side by side until the signal aborts or one of them fails. */
async function together(signal: AbortSignal, client: AgentClient, routines: Routine[]): Promise<void> {
  await Promise.all(routines.map((routine) => routine(client, signal)));
}

async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
