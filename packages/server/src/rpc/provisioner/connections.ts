import { errorText } from '@ropewalk/kit';
import { CAPABILITIES_HEADER, formatCapabilities, parseCapabilities } from '@ropewalk/wire/capabilities';
import { serveDrpc } from '@ropewalk/wire/drpc';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import type { BackgroundTask } from '../../app/context/background-task.ts';
import type { Services } from '../../app/context/context.ts';
import type { JobQueue } from '../../app/job/queue.ts';
import { forgetDaemonGroups } from '../../app/job/waiting.ts';
import { type JoinedDaemon, withoutCredential } from '../../app/provisioner/credential.ts';
import type { EventMap } from '../../db/events.ts';
import { BUILT_IN_KEY_ID, type DaemonRow, daemonConnected, daemonDisconnected } from '../../db/queries/daemons.ts';
import { noMetrics } from '../../metrics/metrics.ts';
import { DAEMON_BOUNDS } from '../bounds.ts';
import { describeCallError } from '../call-errors.ts';
import { Departure } from '../departure.ts';
import { createDaemonBudgets, type DaemonBudget } from './budgets.ts';
import { createDaemonConnection } from './connection.ts';
import { jobErrorCode } from './job-errors.ts';
import { type ConnectedDaemon, daemonUpkeepTasks } from './upkeep.ts';

/** Calls of one connection at a time: each may hold a window of bytes here that no budget counts. */
const MAX_CALLS = 32;

type Offered = string | string[] | undefined;

export interface DaemonConnections {
  /** Serves one daemon until its connection ends. */
  serve(connection: WebSocketConnection, daemon: JoinedDaemon, offered: Offered, budget: DaemonBudget): Promise<void>;
  /**
   * Reserves the budget of a connection. `serve` releases it.
   * @throws AppError `rate_limited` if the credential has as many connections as it may have
   */
  reserve(daemon: DaemonRow, offered: Offered): DaemonBudget;
  /** The tasks that keep rows, leases and credentials of connected daemons up to date. */
  tasks: BackgroundTask[];
  /** Cuts every connection. The daemons come back when the server is up again. */
  close(): void;
}

const isOurs = (offered: Offered) => parseCapabilities(offered).has('job-control/1');

/** The headers of the 101 with which the server announces its own capabilities to our daemons. */
export function daemonUpgradeHeaders(offered: Offered): Record<string, string> {
  return isOurs(offered)
    ? { [CAPABILITIES_HEADER]: formatCapabilities(['job-control/1', 'job-finish/1', 'job-errors/1']) }
    : {};
}

function changeOf(daemon: DaemonRow): EventMap['object_changed'] {
  const { id, organization_id, tags } = daemon;
  const owner = tags['scope'] === 'user' ? tags['owner'] : undefined;
  return { kind: 'provisioner', id, organization_id, ...(owner ? { owner_id: owner } : {}) };
}

/** Whether a daemon is one of this server's own, which end with it. */
const isBuiltIn = ({ key_id: key, finishes }: JoinedDaemon) => key === BUILT_IN_KEY_ID && !finishes;

/** The server's end of the provisioner stream: WebSocket → yamux → DRPC, for upstream's daemons and for our own. */
export function createDaemonConnections(
  services: Services,
  queue: JobQueue,
  metrics = noMetrics,
  departure = new Departure(),
): DaemonConnections {
  const sessions = new Map<YamuxSession, JoinedDaemon>();
  const daemons = new Set<ConnectedDaemon>();
  const budgets = createDaemonBudgets();

  /** A daemon may have several connections: after a restart, those of its old process and of its new one. */
  async function storeEnd({ connection }: ConnectedDaemon): Promise<void> {
    const other = [...daemons].find(({ daemon }) => daemon.id === connection.daemonId);
    await daemonDisconnected(services.sql, connection, other?.connection);
    // the other one ended before the row named it
    if (other && !daemons.has(other)) await storeEnd(other);
  }

  /** Makes a daemon connect to another server. It repeats there the calls that this one has not answered. */
  function move(session: YamuxSession, daemon: JoinedDaemon): void {
    if (!isBuiltIn(daemon)) void session.close('the server is shutting down');
  }
  departure.onBegin(() => {
    for (const [session, daemon] of sessions) move(session, daemon);
  });

  return {
    tasks: daemonUpkeepTasks(services, daemons),
    reserve: (daemon, offered) => budgets.reserve(daemon, isOurs(offered)),
    async serve(socket, daemon, offered, budget) {
      const log = services.log.child({ daemon: daemon.name, daemon_id: daemon.id });
      // upstream's server ends a connection with the same codes: going away, or a failure
      const closeCode = (): number => (session.failed ? 1011 : 1001);
      const session: YamuxSession = new YamuxSession(byteStream(socket, { closeCode }), {
        role: 'server',
        maxIncomingStreams: MAX_CALLS,
      });
      sessions.set(session, daemon);
      const connection = createDaemonConnection({
        services,
        queue,
        metrics,
        daemon,
        ours: isOurs(offered),
        uploads: budget.uploads,
        log,
        cut: () => session.close(),
      });
      daemons.add(connection);
      const announce = () => services.events.publishSoon('object_changed', changeOf(daemon));
      const presence = daemonConnected(services.sql, connection.connection).then(announce, (err) =>
        log.warn('could not store that a daemon is connected', { err: errorText(err) }),
      );
      // the credential may have been revoked after it was checked and before this connection was in the set
      void withoutCredential(services, [daemon])
        .then((gone) => (gone.has(daemon.id) ? connection.revoke() : undefined))
        .catch((err) => log.warn('could not check the credential of a daemon', { err: errorText(err) }));
      log.info('provisioner daemon connected', { tags: daemon.tags, api_version: daemon.api_version });
      serveDrpc(session, connection.rpc, {
        maxMessageBytes: budget.maxMessageBytes,
        budget: budget.budget,
        bounds: DAEMON_BOUNDS,
        describeError: describeCallError(log, isOurs(offered) ? jobErrorCode : undefined),
        onError: (err, method) => log.debug('provisioner call failed', { method, err: errorText(err) }),
      });
      if (departure.isOn) move(session, daemon);
      try {
        await session.closed;
      } finally {
        sessions.delete(session);
        budget.release();
        daemons.delete(connection);
        connection.close();
        log.info('provisioner daemon disconnected');
        await presence;
        // if this fails, the daemon counts as connected until it has been silent for a while
        await storeEnd(connection).then(announce, () => {});
        forgetDaemonGroups(services);
      }
    },
    close() {
      for (const session of sessions.keys()) session.close();
    },
  };
}
