import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { AppError, backoff, errorText, RECONNECT, systemClock } from '@ropewalk/kit';
import { CAPABILITIES_HEADER, formatCapabilities, parseCapabilities } from '@ropewalk/wire/capabilities';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State, Log_Level, Timing_Stage } from '@ropewalk/wire/proto/agent';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { byteStream, dialWebSocket, WebSocketClosedError, WebSocketDialError } from '@ropewalk/wire/websocket';
import { type YamuxClose, YamuxSession } from '@ropewalk/wire/yamux';
import { createActivity } from './activity.ts';
import { reportAppHealth } from './app-health.ts';
import { createDevcontainers } from './containers/devcontainers.ts';
import { containersService, devcontainerService } from './containers/services.ts';
import { expandPath } from './environment.ts';
import { linkExecutable } from './executable.ts';
import { deriveHostKey } from './host-key.ts';
import { tokenByIdentity } from './identity.ts';
import { createLifecycle } from './lifecycle.ts';
import { startLocalSocket } from './local-socket/server.ts';
import { createLogSender } from './logs.ts';
import { createMetadataReporter } from './metadata.ts';
import { createAgentMetrics } from './metrics.ts';
import type { AgentOptions } from './options.ts';
import { awaitReinit, reinitService } from './reinit.ts';
import { reportResources } from './resources.ts';
import { sweepScratch } from './scratch.ts';
import { createScripts, type ScriptOutcome } from './scripts.ts';
import { connectionOf } from './services/connection.ts';
import { forgetService } from './services/forget.ts';
import { pingService } from './services/ping.ts';
import { portsService } from './services/ports.ts';
import { ptyService } from './services/pty.ts';
import type { Services } from './services/service.ts';
import { speedtestService } from './services/speedtest.ts';
import { tcpService } from './services/tcp.ts';
import { udpService } from './services/udp.ts';
import { createSshServer } from './ssh/server.ts';
import { serveTunnel } from './tunnels.ts';
import { type AgentClient, type Routine, uuidText } from './wire-types.ts';
import { createWorkspace, type Workspace } from './workspace.ts';

/** Upstream uses 256 KiB. A larger window gives more throughput between our own parts. */
const OUR_WINDOW = 1024 * 1024;
/** How much all windows of the connection may grow together on a connection with a long round trip. */
const WINDOW_GROWTH = 64 * 1024 * 1024;
const HOST_KEY_HEADER = 'Platform-Ssh-Host-Key';
/** The first wait after the server rejects the token. The build may be outdated for good, or its job not done yet. */
const REFUSED_BASE_MS = 1_000;
const REFUSED_CAP_MS = 30_000;
/** The server's close code for a connection that a newer one with the same token replaces. */
const SUPERSEDED = 4409;
/** A connection of this age counts as a success, so that the next attempt follows soon. */
const SETTLED_MS = 10_000;
/** The deadline for the last reports at shutdown, and for stop scripts without a timeout. */
const LAST_REPORTS_MS = 5_000;
const STOP_SCRIPTS_MS = 5 * 60_000;

/** The log source of the agent's own lines. The server knows it. */
const NO_SOURCE = new Uint8Array(16);

export interface RunningAgent {
  /** Resolves when the agent has stopped. Never rejects: the agent logs failures and retries. */
  readonly done: Promise<void>;
  /** Runs stop scripts, reports to the server, and ends sessions and the connection. */
  stop(): Promise<void>;
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

/**
 * Runs a workspace's agent: connects to the server, reconnects until stopped, and serves the workspace over the
 * connection.
 */
export function runAgent(options: AgentOptions): RunningAgent {
  sweepScratch();
  let life: Life;
  let stopping = false;
  let between: Promise<void> | undefined;
  const done = Promise.withResolvers<void>();
  const begin = () => {
    const mine = startLife(options, startOver);
    life = mine;
    void mine.done.then(() => {
      if (life === mine && !between) done.resolve();
    });
  };
  function startOver(reason: string): void {
    if (stopping || between) return;
    options.log.info('the agent is starting over', { reason });
    between = life.end().then(() => {
      between = undefined;
      if (stopping) done.resolve();
      else begin();
    });
  }
  begin();
  return {
    done: done.promise,
    async stop() {
      stopping = true;
      if (between) await between;
      else await life.stop();
    },
  };
}

/** One run of the agent: from its first manifest until it stops or starts over. */
interface Life extends RunningAgent {
  /** Ends everything immediately, without stop scripts or last reports. */
  end(): Promise<void>;
}

function startLife(options: AgentOptions, startOver: (reason: string) => void): Life {
  const { log } = options;
  const stopping = new AbortController();
  const ended = new AbortController();
  const lifecycle = createLifecycle();
  const logs = createLogSender(options.logPatienceMs);
  const devcontainers = createDevcontainers({ options, logs, log });
  const metrics = createAgentMetrics();
  const scripts = createScripts({ logs, log, metrics }, ({ id, logSourceId }) =>
    devcontainers.start(uuidText(id), logSourceId),
  );
  const activity = createActivity(metrics);
  const metadata = createMetadataReporter(options.metadataPaceMs);
  const ssh = createSshServer({ log, options, activity });
  const pty = ptyService(activity, lifecycle);
  const local = options.socketPath ? startLocalSocket({ wanted: options.socketPath, log }) : undefined;
  const sessions = new ResumableSessions();
  const services: Services = new Map([
    ['ssh', ({ request, accept }) => ssh.serve(accept(), connectionOf(request))],
    ['tcp', tcpService(activity)],
    ['watch', metadata.watch],
    ['reinit', reinitService(startOver)],
    ['udp', udpService(activity)],
    ['pty', pty.serve],
    ['ports', portsService()],
    ['containers', containersService(devcontainers)],
    ['devcontainer', devcontainerService(devcontainers)],
    ['ping', pingService],
    ['forget', forgetService(sessions)],
    ['speedtest', speedtestService],
  ]);
  /** The token of the current connection. */
  let token = '';
  /** The token with which the current manifest was fetched. */
  let tokenOfWorkspace = '';
  let workspace: Workspace | undefined;
  let started: Promise<void> = Promise.resolve();

  const finish = (outcome: ScriptOutcome, ok: Lifecycle_State, failed: Lifecycle_State, late: Lifecycle_State) =>
    lifecycle.set(outcome === 'ok' ? ok : outcome === 'failed' ? failed : late);

  async function start(first: Workspace): Promise<void> {
    lifecycle.set(Lifecycle_State.STARTING);
    const from = performance.now();
    const outcome = await scripts.runStage(first, Timing_Stage.START);
    metrics.started(outcome === 'ok', performance.now() - from);
    if (stopping.signal.aborted) return;
    devcontainers.settled();
    reportMissingDirectory(first);
    finish(outcome, Lifecycle_State.READY, Lifecycle_State.START_ERROR, Lifecycle_State.START_TIMEOUT);
    scripts.startCron(first);
  }

  /** Logs that the agent's directory is missing. Runs after the start scripts, because they often create it. */
  function reportMissingDirectory(first: Workspace): void {
    const env = first.environment();
    const wanted = expandPath(first.manifest.directory, first.account, env);
    const used = first.directory(env);
    if (used === wanted) return;
    log.warn("the agent's directory does not exist", { directory: wanted, instead: used });
    logs.add(NO_SOURCE, Log_Level.WARN, `The directory "${wanted}" does not exist. Sessions start in "${used}".`);
  }

  const steady: Routine = async (client, signal) => {
    const manifest = await client.getManifest({}, { signal });
    const first = workspace === undefined;
    // a build renews the token, except for a claim: its announcement was missed while the connection was down
    if (workspace && tokenOfWorkspace === token && Buffer.compare(workspace.manifest.agentId, manifest.agentId) !== 0) {
      startOver('the workspace has a new owner');
      return;
    }
    tokenOfWorkspace = token;
    workspace = createWorkspace(options, token, manifest, await local?.path);
    const env = workspace.environment();
    const startup = {
      version: options.version,
      expandedDirectory: expandPath(manifest.directory, workspace.account, env),
      subsystems: options.subsystems ?? [],
    };
    await client.updateStartup({ startup }, { signal });
    ssh.setWorkspace(workspace);
    pty.setWorkspace(workspace);
    devcontainers.setWorkspace(workspace, token);
    if (first) await linkExecutable(options, tmpdir());
    if (first) started = start(workspace).catch((err) => log.error('start failed', { err: errorText(err) }));
    const now = workspace;
    await together(signal, client, [
      lifecycle.run,
      logs.run,
      scripts.report,
      devcontainers.run,
      activity.reportStats,
      activity.reportConnections,
      (calls, until) => metadata.report(now, calls, until),
      (calls, until) => reportAppHealth(now, calls, until),
    ]);
  };

  async function connectOnce(): Promise<YamuxClose> {
    token = await readToken(options);
    const hostKey = deriveHostKey(token);
    ssh.setHostKey(hostKey);
    const url = new URL('/api/v2/workspaceagents/me/rpc?version=2.6', options.url);
    const { connection, responseHeaders } = await dialWebSocket(url, {
      ...options.tls,
      signal: ended.signal,
      headers: {
        ...(await options.headers?.()),
        Cookie: `coder_session_token=${token}`,
        [CAPABILITIES_HEADER]: formatCapabilities(['tunnel/1', 'resume/1']),
        [HOST_KEY_HEADER]: hostKey.publicBlob.toString('base64'),
      },
    });
    const tunnels = parseCapabilities(responseHeaders['platform-capabilities']).has('tunnel/1');
    metadata.setQuiet(tunnels);
    logs.setNumbered(tunnels);
    const session = new YamuxSession(byteStream(connection), {
      role: 'client',
      ...(tunnels
        ? {
            maxWindow: OUR_WINDOW,
            growth: WINDOW_GROWTH,
            onStream: (stream) => void serveTunnel(stream, { services, sessions, activity, log }),
          }
        : {}),
    });
    const connected = new AbortController();
    const end = () => void session.close();
    ended.signal.addEventListener('abort', end, { once: true });
    if (ended.signal.aborted) end();
    log.info('connected to the server', { tunnels });
    const client: AgentClient = createDrpcClient(Agent, () => session.openStream());
    local?.setServer(client);
    // This server announces a new owner over a tunnel.
    if (!tunnels) {
      const source = { url: options.url, token, headers: (await options.headers?.()) ?? {}, log };
      awaitReinit(source, connected.signal).then(startOver, () => {});
    }
    const work = together(connected.signal, client, [steady, reportResources, banners]).catch((err) => {
      if (connected.signal.aborted) return;
      log.warn('a call to the server failed, reconnecting', { err: errorText(err) });
      void session.close();
    });
    const close = await session.closed;
    const { reason } = close;
    local?.setServer(undefined);
    connected.abort(new Error(`the connection ended: ${reason}`));
    ended.signal.removeEventListener('abort', end);
    log.info('disconnected from the server', { reason });
    await work;
    return close;
  }

  async function loop(): Promise<void> {
    const waits = backoff({ baseMs: 100, factor: 1.62, ...RECONNECT, ...capOf(options) });
    const refused = backoff({ baseMs: REFUSED_BASE_MS, capMs: REFUSED_CAP_MS, ...capOf(options) });
    while (!ended.signal.aborted) {
      const from = performance.now();
      let wait: number;
      try {
        const { error } = await connectOnce();
        if (error instanceof WebSocketClosedError && error.code === SUPERSEDED) {
          // Two agents that keep replacing each other would leave users without a session.
          wait = refused.next();
          log.warn('another agent with this token took over', { retry_ms: Math.round(wait) });
        } else {
          if (performance.now() - from > SETTLED_MS) waits.reset();
          refused.reset();
          wait = waits.next();
        }
      } catch (err) {
        if (ended.signal.aborted) return;
        const status = err instanceof WebSocketDialError ? err.status : undefined;
        const unproven = err instanceof AppError && err.code === 'unauthenticated';
        wait = unproven || status === 401 || status === 403 ? refused.next() : waits.next();
        log.warn('could not connect', { err: errorText(err), answer: serverMessage(err), retry_ms: Math.round(wait) });
      }
      // An end cuts the wait short, and the loop checks for it.
      await systemClock.sleep(wait, ended.signal).catch(() => {});
    }
  }

  async function stop(): Promise<void> {
    stopping.abort();
    lifecycle.set(Lifecycle_State.SHUTTING_DOWN);
    if (workspace) {
      const outcome = await within(scripts.runStage(workspace, Timing_Stage.STOP), STOP_SCRIPTS_MS);
      finish(
        outcome ?? 'timed_out',
        Lifecycle_State.OFF,
        Lifecycle_State.SHUTDOWN_ERROR,
        Lifecycle_State.SHUTDOWN_TIMEOUT,
      );
      await Promise.all([scripts.close(), devcontainers.close()]);
      await started;
      await within(Promise.all([logs.flush(), lifecycle.reported()]), LAST_REPORTS_MS);
    }
    await close();
  }

  async function close(): Promise<void> {
    sessions.close();
    ssh.close();
    pty.close();
    ended.abort();
    await Promise.all([done, local?.close()]);
  }

  const done = loop();
  let stopped: Promise<void> | undefined;
  return {
    done,
    stop() {
      stopped ??= stop();
      return stopped;
    },
    async end() {
      stopping.abort();
      await Promise.all([scripts.close(), devcontainers.close()]);
      await close();
    },
  };
}

/** Fetches banners. Only upstream's agent shows them in terminals, but an upstream server records that we asked. */
const banners: Routine = async (client, signal) => {
  await client.getAnnouncementBanners({}, { signal });
};

/** Runs routines side by side until the signal aborts or one of them fails. */
async function together(signal: AbortSignal, client: AgentClient, routines: Routine[]): Promise<void> {
  await Promise.all(routines.map((routine) => routine(client, signal)));
}

const capOf = ({ reconnectCapMs: capMs }: AgentOptions) => (capMs === undefined ? {} : { capMs });

function serverMessage(err: unknown): string | undefined {
  if (!(err instanceof WebSocketDialError) || err.body === '') return undefined;
  try {
    const { message } = JSON.parse(err.body) as { message?: unknown };
    return typeof message === 'string' ? message.slice(0, 500) : undefined;
  } catch {
    return undefined;
  }
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
