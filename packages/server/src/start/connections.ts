import type { Services } from '../app/context/context.ts';
import { createSessions, type Sessions } from '../app/context/session.ts';
import { type ChangeFeed, createChangeFeed } from '../app/follow/change-feed.ts';
import { createJobQueue } from '../app/job/queue.ts';
import { createResumeTokens } from '../app/tailnet/resume-tokens.ts';
import { randomText } from '../app/values/token.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { type AgentConnections, createAgentConnections } from '../rpc/agent/connections.ts';
import { Departure } from '../rpc/departure.ts';
import { createDaemonConnections, type DaemonConnections } from '../rpc/provisioner/connections.ts';
import { TailnetHub } from '../rpc/tailnet/hub.ts';
import { type Cluster, createCluster } from './cluster.ts';
import type { Installation } from './services.ts';
import type { Starting } from './starting.ts';

/** The parts that serve sessions of people and the connections of agents and provisioner daemons. */
export interface Connections {
  sessions: Sessions;
  daemons: DaemonConnections;
  /** Those of this server only. */
  agents: AgentConnections;
  cluster: Cluster;
  /** Moves agents and daemons to other servers while this one drains. */
  departure: Departure;
  feed: ChangeFeed;
  tailnet: TailnetHub;
  /** The credential of the built-in daemons. Regenerated at every start and never stored. */
  installationSecret: string;
}

/** The caller closes the connections of agents and daemons, which must end before the HTTP server does. */
export function startConnections(
  { closer }: Starting,
  services: Services,
  { resumeKey }: Pick<Installation, 'resumeKey'>,
  { metrics, isReady }: { metrics: Metrics | undefined; isReady(): boolean },
): Connections {
  const sessions = createSessions(services);
  const queue = createJobQueue(services);
  closer.add('job queue', () => queue.close());
  const departure = new Departure();
  const daemons = createDaemonConnections(services, queue, metrics, departure);
  const tailnet = new TailnetHub(services, createResumeTokens(resumeKey, services.clock));
  const agents = createAgentConnections(services, { metrics, departure, tailnet });
  closer.add('sessions', () => sessions.close());
  const feed = createChangeFeed(services);
  closer.add('changes', async () => feed.close());
  const cluster = createCluster(services, { local: agents, hub: tailnet, isReady });
  return { sessions, daemons, agents, cluster, departure, feed, tailnet, installationSecret: randomText(43) };
}
