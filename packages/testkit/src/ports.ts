import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * The kernel gives ports from 32768 on to connections and to servers that do not name one. A port of that range could be
 * taken before the server of a test listens, or while it restarts. All of these have five digits, so that no address is
 * the start of another one.
 */
const [FIRST, END] = [20_000, 32_768];
const given = new Set<number>();

/** Ports on which nothing listens, for servers that must know their ports before they listen. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(FIRST, END);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    ports.push(port);
  }
  return ports;
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}

/** Whether nothing listens on a port, at any address of this machine. */
function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once('error', () => resolve(false));
    probe.listen(port, () => probe.close(() => resolve(true)));
  });
}
