import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { Sessions } from '../../app/context/session.ts';
import { joinDaemon } from '../../app/provisioner/join.ts';
import type { Actor } from '../../authz/actor.ts';
import type { Departure } from '../../rpc/departure.ts';
import { type createDaemonConnections, daemonUpgradeHeaders } from '../../rpc/provisioner/connections.ts';
import { requestToken } from '../auth.ts';
import { defineHandlers } from '../exchange.ts';

export interface DaemonRoutes {
  sessions: Sessions;
  connections: ReturnType<typeof createDaemonConnections>;
  departure: Pick<Departure, 'check'>;
  installationSecret: string;
  /** Whether a connection came over the built-in daemons' own socket. */
  isOwnSocket(socket: object): boolean;
}

/** The route on which provisioner daemons join. */
export function daemonHandlers({ sessions, connections, departure, installationSecret, isOwnSocket }: DaemonRoutes) {
  return defineHandlers({
    'GET /organizations/{organization}/provisionerdaemons/serve': async (ctx, { params, http }) => {
      const { headers } = http.request;
      const ownSocket = isOwnSocket(http.request.raw.socket);
      if (!ownSocket) departure.check();
      const token = requestToken(http.request);
      // without a valid token the actor is nobody. joinDaemon decides whether another credential is enough
      const user = token
        ? await sessions.verify(token.token).then(
            ({ actor }) => actor,
            (): Actor => ({ kind: 'none' }),
          )
        : ({ kind: 'none' } as const);
      const daemon = await joinDaemon(ctx, {
        organization: params.organization,
        query: http.request.query as Record<string, unknown>,
        headers,
        user,
        installationSecret,
        ownSocket,
      });
      const offered = headers['platform-capabilities'];
      const room = connections.reserve(daemon, offered);
      let connection: WebSocketConnection;
      try {
        connection = http.upgrade(daemonUpgradeHeaders(offered));
      } catch (err) {
        room.release();
        throw err;
      }
      void connections.serve(connection, daemon, offered, room);
    },
  });
}
