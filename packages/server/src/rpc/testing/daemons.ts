import type { TestServer } from '@ropewalk/testkit';
import { formatCapabilities } from '@ropewalk/wire/capabilities';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

export interface Joining {
  psk?: string;
  key?: string;
  /** A person's session token. */
  token?: string;
  tags?: readonly string[];
  /** Joins with all capabilities of our own daemons. */
  ours?: boolean;
}

/** Opens a daemon's connection to the default organization. Connections with the same name are one daemon. */
export async function dialAsDaemon(server: TestServer, name: string, as: Joining): Promise<WebSocketConnection> {
  const url = new URL(`${server.url}/api/v2/organizations/default/provisionerdaemons/serve`);
  url.search = `version=1.8&provisioner=terraform&name=${name}`;
  for (const tag of as.tags ?? []) url.searchParams.append('tag', tag);
  const { connection } = await dialWebSocket(url, {
    headers: {
      ...(as.psk === undefined ? {} : { 'Coder-Provisioner-Daemon-PSK': as.psk }),
      ...(as.key === undefined ? {} : { 'Coder-Provisioner-Daemon-Key': as.key }),
      ...(as.token === undefined ? {} : { Cookie: `coder_session_token=${as.token}` }),
      ...(as.ours
        ? { 'Platform-Capabilities': formatCapabilities(['job-control/1', 'job-finish/1', 'job-errors/1']) }
        : {}),
    },
  });
  return connection;
}

export interface JoinedDaemon {
  connection: WebSocketConnection;
  session: YamuxSession;
  daemon: ReturnType<typeof daemonOn>;
}

/** The calls of a daemon on its session. */
export const daemonOn = (session: YamuxSession) => createDrpcClient(ProvisionerDaemon, () => session.openStream());

/** Joins as a daemon that makes calls. */
export async function joinDaemon(server: TestServer, name: string, as: Joining): Promise<JoinedDaemon> {
  const connection = await dialAsDaemon(server, name, as);
  const session = new YamuxSession(byteStream(connection), { role: 'client' });
  return { connection, session, daemon: daemonOn(session) };
}
