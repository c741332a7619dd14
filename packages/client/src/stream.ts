import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { ResumableSession } from '@ropewalk/wire/resume/client';
import type { Client } from './client.ts';
import { dial } from './dial.ts';
import { ApiError, UnreachableError } from './errors.ts';
import type { KeptSession, MeasuredPath } from './paths/keep.ts';
import type { AgentService } from './tailnet/tunnel.ts';

export interface FollowOptions {
  /** Some routes send a list per message, others one object. See ProvisionerJobLog and WorkspaceAgentLog. */
  onMessage: (message: unknown) => void;
  /** Called when the server has accepted the request. */
  onOpen?: () => void;
  signal?: AbortSignal | undefined;
}

/**
 * Calls back with each JSON message of a WebSocket route, in order, until the server closes it. @throws ApiError if the
 * server rejects the request, UnreachableError if the connection breaks before its close.
 */
export async function followJson(
  client: Client,
  path: string,
  { onMessage, onOpen, signal }: FollowOptions,
): Promise<void> {
  const { connection } = await dial(client, path, signal);
  onOpen?.();
  const stop = () => connection.close(1000);
  signal?.addEventListener('abort', stop, { once: true });
  connection.on('text', (text) => onMessage(JSON.parse(text)));
  const { code, reason } = await connection.closed;
  signal?.removeEventListener('abort', stop);
  signal?.throwIfAborted();
  if (code !== 1000 && code !== 1001 && code !== 1005) {
    throw new UnreachableError(`The connection to ${client.url} was lost (${code}${reason ? ` ${reason}` : ''}).`);
  }
}

export interface Tunnel {
  /** The service's bytes. */
  stream: Duplex;
  /**
   * The agent's SSH host key that the server has stored, as base64 of the key blob. Empty if it has none. Undefined if the
   * stream itself ends at the right agent, whose key the server vouches for.
   */
  hostKey: string | undefined;
  /**
   * How the bytes go now: `relay Europe`, `direct 192.0.2.7:41641`, `proxy eu`, or empty: through the server, or not known
   * before the first answer to a ping of an agent without tunnels of the server.
   */
  path?: () => string;
  /** The measured paths to the agent, named in the same way, and their round trips in ms. */
  paths?: () => MeasuredPath[];
}

/** An agent by its id, or a ready agent of a running workspace by the owner's and the workspace's name. */
export type TunnelTarget = string | NamedAgent;

export interface NamedAgent {
  owner: string;
  workspace: string;
  /** The agent's name. May be empty if there is only one. */
  agent: string;
}

export interface TunnelOptions extends AgentService {
  /** Whether to wait for a server that cannot be reached, as for an agent that moves. */
  waitsForServer?: boolean;
  /** Called when the connection is lost, and when another one has resumed. */
  onLost?(): void;
  onResumed?(): void;
  /** Called when the session moves to another path, named as in Tunnel. */
  onPath?(path: string): void;
}

/** Statuses that another attempt does not change: signed out, not allowed, not found, invalid. */
const FINAL = new Set([400, 401, 403, 404, 410, 501]);
/** The status of an agent that has no tunnels of the server. */
const NO_TUNNELS = 501;

/** How long a tunnel is tried while the agent moves to another server, or the server cannot be reached, in ms. */
const MAX_MOVE_MS = 20_000;
const UNREACHABLE_WAIT_MS = 500;
/** A session that is open for this long, in ms, looks for a better path. */
const LASTS_MS = 2_000;

/** The wait until another attempt may succeed, in ms. Undefined: it would not. */
function waitAfter(err: unknown, { waitsForServer = false }: TunnelOptions): number | undefined {
  if (err instanceof UnreachableError) return waitsForServer ? UNREACHABLE_WAIT_MS : undefined;
  if (!(err instanceof ApiError) || err.status !== 503 || err.retryAfter === undefined) return undefined;
  return err.retryAfter * 1_000;
}

/**
 * Opens a byte stream to a service of a connected agent. The stream outlives its connection: for 100 seconds after a
 * loss the client opens others and resumes where the last one ended. If that fails, the stream ends with ResumeError or
 * the server's error. For agents without resumable sessions the stream is one plain connection. Agents that have no
 * tunnels of the server, such as upstream's, are reached over the tailnet, if the target is an id.
 */
export async function openTunnel(client: Client, target: TunnelTarget, options: TunnelOptions): Promise<Tunnel> {
  const [{ byteStream }, { connectSession }] = await Promise.all([
    import('@ropewalk/wire/websocket'),
    import('@ropewalk/wire/resume/client'),
  ]);
  const { service, port, signal, onLost, onResumed } = options;
  let agentId = typeof target === 'string' ? target : '';
  let hostKey = '';
  let may = { direct: false, proxy: false };
  let plain: Duplex | undefined;
  const dialTunnel = async (resume: 'new' | 'attach', until: AbortSignal): Promise<Duplex> => {
    const query = new URLSearchParams({ service, resume, ...(port === undefined ? {} : { port: String(port) }) });
    let path = `/workspaceagents/${encodeURIComponent(agentId)}`;
    if (agentId === '' && typeof target === 'object') {
      const { owner, workspace, agent } = target;
      path = `/users/${encodeURIComponent(owner)}/workspace/${encodeURIComponent(workspace)}`;
      if (agent !== '') query.set('agent', agent);
    }
    const { connection, responseHeaders } = await dial(client, `${path}/tunnel?${query}`, until);
    // Dial this agent again, whatever the workspace's name refers to then.
    agentId ||= String(responseHeaders['platform-agent-id'] ?? '');
    hostKey ||= String(responseHeaders['platform-ssh-host-key'] ?? '');
    const stream = byteStream(connection);
    const offered = String(responseHeaders['platform-capabilities'] ?? '');
    may = {
      direct: /\bdirect\/1\b/.test(offered) && !client.blocksDirect,
      // what the server offers is `proxy-path/1` only if there is a proxy
      proxy: /\bproxy-path\/1\b/.test(offered) && client.region !== 'primary',
    };
    if (!/\bresume\/1\b/.test(offered)) {
      plain = stream;
      throw new PlainTunnel();
    }
    return stream;
  };
  const until = performance.now() + MAX_MOVE_MS;
  for (;;) {
    try {
      const session = await connectSession({
        dial: dialTunnel,
        mayRetry: (err) => !(err instanceof PlainTunnel || (err instanceof ApiError && FINAL.has(err.status))),
        ...(signal ? { signal } : {}),
        ...(onLost ? { onLost } : {}),
        ...(onResumed ? { onResumed } : {}),
      });
      const kept =
        may.direct || may.proxy ? betterPath(client, agentId, session, { ...may, onPath: options.onPath }) : {};
      return { stream: session.stream, hostKey, path: () => '', ...kept };
    } catch (err) {
      if (plain && err instanceof PlainTunnel) return { stream: plain, hostKey };
      if (typeof target === 'string' && err instanceof ApiError && err.status === NO_TUNNELS) {
        const { openTailnetTunnel } = await import('./tailnet/tunnel.ts');
        return { ...(await openTailnetTunnel(client, target, options)), hostKey: undefined };
      }
      const waitMs = waitAfter(err, options);
      if (waitMs === undefined || performance.now() + waitMs > until) throw err;
      await delay(waitMs, undefined, signal ? { signal } : {});
    }
  }
}

/**
 * Lets a session that lasts use a better path to its agent. A short one costs nothing: it loads nothing of the paths, and
 * asks for nothing.
 */
function betterPath(
  client: Client,
  agentId: string,
  session: ResumableSession,
  may: { direct: boolean; proxy: boolean; onPath: TunnelOptions['onPath'] },
): KeptSession {
  let kept: KeptSession = { path: () => '', paths: () => [] };
  const begin = async () => {
    const { keepOnBetterPath } = await import('./paths/keep.ts');
    if (!session.stream.destroyed) kept = await keepOnBetterPath(client, agentId, session, may);
  };
  // without the package, the session remains with the server
  const timer = setTimeout(() => void begin().catch(() => {}), LASTS_MS).unref();
  session.stream.once('close', () => clearTimeout(timer));
  return { path: () => kept.path(), paths: () => kept.paths() };
}

/** The agent at the other end has no resumable sessions. */
class PlainTunnel extends Error {}
