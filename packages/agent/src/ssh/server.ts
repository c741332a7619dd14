import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { errorText, type Logger } from '@ropewalk/kit';
import type { Connection } from 'ssh2';
import Server from 'ssh2/lib/server.js';
import type { Activity } from '../activity.ts';
import type { HostKey } from '../host-key.ts';
import type { AgentOptions } from '../options.ts';
import type { Workspace } from '../workspace.ts';
import type { SshConnection } from './connection.ts';
import { forwardAgent, serveForwards } from './forward.ts';
import { serveSession } from './session.ts';

/** How long a client waits for the first manifest, in ms. */
const MANIFEST_WAIT_MS = 30_000;

const DEFAULT_IDLE_MS = 72 * 3_600_000;

/** Counts a connection's bytes, and ends the connection after receiving nothing for `idleMs` (0: never). */
function observe(stream: Duplex, idleMs: number, activity: Activity): void {
  const timer = idleMs > 0 ? setTimeout(() => stream.destroy(), Math.min(idleMs, 2 ** 31 - 1)).unref() : undefined;
  stream.on('data', (chunk: Buffer) => {
    timer?.refresh();
    activity.count(chunk.length, 0);
  });
  // Observing must not start the stream before SSH listens.
  stream.pause();
  stream.on('close', () => clearTimeout(timer));
  const write = stream.write.bind(stream);
  stream.write = (chunk: Buffer, ...rest: unknown[]) => {
    activity.count(0, chunk.length);
    return write(chunk, ...(rest as [never]));
  };
}

export interface SshServer {
  /** Serves SSH on a stream. The server at its other end has authorized the client, and named the connection. */
  serve(stream: Duplex, tunnelId?: string): void;
  setWorkspace(workspace: Workspace): void;
  setHostKey(key: HostKey): void;
  /** Ends every connection and its processes. */
  close(): void;
}

export interface SshServerOptions {
  log: Logger;
  options: AgentOptions;
  activity: Activity;
}

export function createSshServer({ log, options, activity }: SshServerOptions): SshServer {
  let workspace: Workspace | undefined;
  let server: Server | undefined;
  let waiting: (() => void)[] = [];
  const streams = new Set<Duplex>();
  const tunnelIds = new WeakMap<Duplex, string>();
  const idleMs = options.sshMaxTimeoutMs ?? DEFAULT_IDLE_MS;

  const ready = () =>
    new Promise<void>((resolve, reject) => {
      if (workspace) return resolve();
      const timer = setTimeout(() => reject(new Error('no manifest yet')), MANIFEST_WAIT_MS);
      waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });

  function accepted(client: Connection): void {
    const ended = new AbortController();
    const id = randomUUID();
    let agentSocket: Promise<string> | undefined;
    // ssh2 does not pass the stream on
    const { _sock: stream } = client as unknown as { _sock: Duplex };
    const connection: SshConnection = {
      id,
      client,
      workspace: workspace!,
      log: log.child({ ssh: id.slice(0, 8) }),
      signal: ended.signal,
      activity,
      tunnelId: tunnelIds.get(stream),
      agentSocket: () => {
        agentSocket ??= forwardAgent(connection);
        return agentSocket;
      },
    };
    // No authentication here: the agent is reachable only through the server, which has decided who may open a tunnel.
    client.on('authentication', (auth) => auth.accept());
    client.on('session', (accept) => serveSession(accept(), connection));
    serveForwards(connection);
    client.on('error', (err) => connection.log.debug('SSH connection failed', { err: errorText(err) }));
    client.on('close', () => ended.abort());
  }

  return {
    serve(stream, tunnelId) {
      if (tunnelId !== undefined) tunnelIds.set(stream, tunnelId);
      streams.add(stream);
      // Each channel may add a listener.
      stream.setMaxListeners(0);
      stream.on('close', () => streams.delete(stream));
      // A client that ended one direction is gone.
      stream.on('end', () => stream.end());
      observe(stream, idleMs, activity);
      ready().then(
        () => {
          if (!server || stream.destroyed) stream.destroy();
          else server.injectSocket(stream as Socket);
        },
        () => stream.destroy(),
      );
    },
    setWorkspace(next) {
      workspace = next;
      for (const resolve of waiting.splice(0)) resolve();
      waiting = [];
    },
    setHostKey(key) {
      server = new Server(
        {
          hostKeys: [key.privateKey],
          // Long enough for a machine that sleeps for a while. Connections behind the tunnel have their own keepalive.
          keepaliveInterval: 60_000,
          keepaliveCountMax: 10,
          algorithms: {
            kex: { prepend: ['ecdh-sha2-nistp256', 'curve25519-sha256'] } as never,
            cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes128-ctr', 'aes256-ctr'],
          },
        },
        accepted,
      );
    },
    close() {
      for (const stream of streams) stream.destroy();
    },
  };
}
