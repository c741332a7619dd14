import { readdir, readFile, readlink } from 'node:fs/promises';
import type { Service } from './service.ts';

const LISTENING = '0A';
/** Lower ports belong to the system. */
const LOWEST_PORT = 1_024;
/** How long an answer is reused, in ms: a page that asks often must not read all of /proc each time. */
const FRESH_MS = 1_000;

export interface ListeningPort {
  process_name: string;
  network: 'tcp';
  port: number;
}

/** Parses the ports and socket inodes of listening sockets from a table such as /proc/net/tcp. */
export function parseListening(table: string): { port: number; inode: string }[] {
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === LISTENING)
    .map((fields) => ({ port: Number.parseInt(fields[1]!.split(':')[1]!, 16), inode: fields[9]! }));
}

/** Finds the processes that own these socket inodes. Processes of other users stay unknown. */
async function owners(inodes: ReadonlySet<string>): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || found.size === inodes.size) continue;
    const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const fd of fds) {
      const inode = /^socket:\[(\d+)\]$/.exec(await readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''))?.[1];
      if (inode && inodes.has(inode)) found.set(inode, Number(pid));
    }
  }
  return found;
}

/**
 * Lists what listens on TCP ports of this machine, except the agent itself and ports below 1024. Returns nothing on
 * other systems than Linux: they report it only through their own programs.
 */
export async function listeningPorts(): Promise<ListeningPort[]> {
  if (process.platform !== 'linux') return [];
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8').catch(() => '')),
  );
  const listening = tables.flatMap(parseListening).filter(({ port }) => port >= LOWEST_PORT);
  const pids = await owners(new Set(listening.map(({ inode }) => inode)));
  const byPort = new Map<number, ListeningPort>();
  for (const { port, inode } of listening) {
    const pid = pids.get(inode);
    if (pid === process.pid || byPort.get(port)?.process_name) continue;
    const name = pid === undefined ? '' : await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
    byPort.set(port, { process_name: name.trim(), network: 'tcp', port });
  }
  return [...byPort.values()].sort((a, b) => a.port - b.port);
}

/** `{service: 'ports'}`: sends the listening ports as JSON, then ends. */
export function portsService(list = listeningPorts, freshMs = FRESH_MS): Service {
  let latest: { at: number; ports: Promise<ListeningPort[]> } | undefined;
  return async ({ accept }) => {
    if (!latest || performance.now() - latest.at > freshMs) latest = { at: performance.now(), ports: list() };
    const ports = await latest.ports;
    const stream = accept();
    stream.on('error', () => {});
    stream.resume();
    stream.end(JSON.stringify({ ports }));
  };
}
