// Several servers behind a load balancer with health checks.
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { type Backend, checkHealth, startBalancer } from './balancer.ts';
import {
  type Connection,
  connectTo,
  eventually,
  firstUser,
  freePort,
  type ServerProcess,
  type ServerProcessOptions,
  startCoderServer,
} from './harness.ts';

export interface Member extends Backend {
  server: ServerProcess;
  /** Between the other servers and this one. */
  peers: Pipe;
}

export interface Deployment {
  /** All that were added, in that order. */
  members: Member[];
  /** Of the balancer. */
  url: string;
  /** By the balancer, as all people, as its first user. */
  site: Connection;
  /** The environment of a person's commands. */
  env(): NodeJS.ProcessEnv;
  /** Adds a server, and waits until the balancer uses it. */
  add(options?: Pick<ServerProcessOptions, 'program' | 'env'>): Promise<Member>;
  stop(): Promise<void>;
}

export async function startDeployment(): Promise<Deployment> {
  const balancer = await startBalancer();
  const ending = new AbortController();
  const members: Member[] = [];
  const site = connectTo(balancer.url);
  void checkHealth(balancer, members, ending.signal);
  return {
    members,
    url: balancer.url,
    site,
    env: () => ({ ...members[0]!.server.env, CODER_URL: balancer.url, CODER_SESSION_TOKEN: site.token }),
    async add({ program, env } = {}) {
      const port = await freePort();
      const peers = await startPipe({ port, host: '127.0.0.1' });
      const [first] = members;
      const server = await startCoderServer({
        port,
        ...(first ? { joins: first.server } : {}),
        ...(program ? { program } : {}),
        env: {
          CODER_ACCESS_URL: balancer.url,
          CODER_DERP_SERVER_RELAY_URL: `http://127.0.0.1:${peers.port}`,
          CODER_PROVISIONER_DAEMONS: '2',
          CODER_SHUTDOWN_DELAY: '2s',
          ...env,
        },
      });
      const member = { server, peers, healthy: false };
      members.push(member);
      if (!first) {
        await firstUser(server);
        site.token = server.token;
      }
      await eventually('the balancer uses the server', () => member.healthy);
      return member;
    },
    async stop() {
      ending.abort();
      for (const { server } of members.toReversed()) {
        server.child.kill('SIGCONT');
        await server.stop();
      }
      for (const { peers } of members) peers.close();
      balancer.close();
    },
  };
}
