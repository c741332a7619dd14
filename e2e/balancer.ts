import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answers } from './harness.ts';

/** A TCP load balancer without stickiness, as it stands in front of several servers. */
export interface Balancer {
  url: string;
  /** Directs new connections only to these servers, each in turn. */
  use(...servers: { url: string }[]): void;
  close(): void;
}

/** Connections go to each backend in turn. A backend that refuses is skipped. Listens on any free port by default. */
export async function startBalancer(ownPort = 0): Promise<Balancer> {
  let backends: { host: string; port: number }[] = [];
  let next = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };
  const forward = (client: Socket, tries: number) => {
    const backend = backends[next++ % backends.length];
    if (backend === undefined || tries === 0) return void client.destroy();
    const server = connect({ ...backend, noDelay: true });
    keep(server);
    server.once('error', () => forward(client, tries - 1));
    server.once('connect', () => {
      server.removeAllListeners('error');
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        from.on('error', () => {});
        from.on('close', () => to.destroy());
        from.pipe(to);
      }
    });
    client.once('close', () => server.destroy());
  };
  const listener = createServer({ noDelay: true, pauseOnConnect: true }, (client) => {
    keep(client);
    client.on('error', () => {});
    forward(client, backends.length);
  });
  await new Promise<void>((resolve) => listener.listen(ownPort, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    use(...servers) {
      backends = servers.map(({ url }) => {
        const { hostname, port } = new URL(url);
        return { host: hostname, port: Number(port) };
      });
    },
    close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** As ordinary balancers are configured: two failed checks take a backend out. */
const HEALTH = { everyMs: 500, timeoutMs: 1_000, failures: 2 };
/** So long it takes at most until the balancer does not use a backend that hangs: a failed check is repeated immediately. */
export const NOTICED_MS = HEALTH.everyMs + HEALTH.failures * HEALTH.timeoutMs;

export interface Backend {
  server: { url: string };
  /** Whether the balancer uses it. */
  healthy: boolean;
}

/** Directs connections to the backends that are ready, until the signal aborts. */
export async function checkHealth(
  balancer: Balancer,
  backends: readonly Backend[],
  ending: AbortSignal,
): Promise<void> {
  const failed = new Map<Backend, number>();
  while (!ending.aborted) {
    await Promise.all(
      backends.map(async (backend) => {
        const signal = AbortSignal.timeout(HEALTH.timeoutMs);
        const isUp = await answers(`${backend.server.url}/readyz`, signal);
        failed.set(backend, isUp ? 0 : (failed.get(backend) ?? 0) + 1);
        backend.healthy = failed.get(backend)! < HEALTH.failures;
      }),
    );
    balancer.use(...backends.filter(({ healthy }) => healthy).map(({ server }) => server));
    const isSure = [...failed.values()].every((count) => count === 0 || count >= HEALTH.failures);
    if (isSure) await delay(HEALTH.everyMs);
  }
}
