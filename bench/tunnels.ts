import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { processIds } from '@ropewalk/testkit/processes';
import {
  ensureExecutable,
  eventually,
  freePort,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
} from '../e2e/harness.ts';
import { median, paired, pssMegabytes, type Row, timed } from './measure.ts';
import { readyWorkspace } from './ready-workspace.ts';
import { fetchBytes, type Part, startPart } from './traffic.ts';

const MIB = 1024 * 1024;
const BULK = 512 * MIB;
const GIGABYTE = 1000 * 1000 * 1000;
/** In each direction. The round trip is twice that. */
const DELAY_MS = 50;
const DELAYED_BULK = 200 * 1000 * 1000;

/** `coder port-forward` as a process; its local port leads to the workspace's. */
export async function forward(
  server: ServerProcess,
  url: string,
  remote: number,
): Promise<{ port: number; child: ChildProcess }> {
  const port = await freePort();
  const args = [...PROGRAM.slice(1), 'port-forward', 'dev', '--tcp', `127.0.0.1:${port}:${remote}`];
  const child = spawn(PROGRAM[0]!, args, {
    env: { ...server.env, CODER_URL: url, CODER_SESSION_TOKEN: server.token },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data;
  });
  await eventually('the port is forwarded', async () => /Ready/.test(said));
  return { port, child };
}

/** The pid of the agent that dials a server, found by the address in its environment. */
function agentPid(url: string): number {
  for (const pid of processIds()) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (words[1] !== 'agent' && words.at(-2) !== 'agent') continue;
      if (readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`CODER_AGENT_URL=${url}`)) return pid;
    } catch {
      // the process has ended, or belongs to another user
    }
  }
  throw new Error('the agent was not found');
}

async function benchForward(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  const parts: Part[] = [];
  const part = async (...args: (string | number)[]) => {
    parts.push(await startPart(...args));
    return parts.at(-1)!;
  };
  const source = await part('source');
  let way = source;
  // as many as ours: agent, server, command
  for (let i = 0; i < 3; i++) way = await part('pipe', way.port);
  try {
    await readyWorkspace(server);
    const pid = agentPid(server.url);
    const idle = median(await samples(5, () => pssMegabytes(pid)));
    const ours = await forward(server, server.url, source.port);
    parts.push(ours);
    const bulk = await paired(
      5,
      () => fetchBytes(ours.port, BULK),
      () => fetchBytes(way.port, BULK),
    );
    await fetchBytes(ours.port, GIGABYTE);
    const after = pssMegabytes(pid);
    const speed = (ms: number) => `${(BULK / MIB / (ms / 1_000)).toFixed(0)} MiB/s`;
    return [
      {
        what: `port-forward, ${BULK / MIB} MiB, compared with plain TCP pipes through as many processes`,
        ours: speed(bulk.ours),
        floor: speed(bulk.floor),
        figure: `${(1 / bulk.ratio).toFixed(2)}×`,
        reach: '≥ 0.7×',
        met: 1 / bulk.ratio >= 0.7,
      },
      {
        what: 'agent, idle (PSS)',
        ours: `${idle.toFixed(0)} MB`,
        floor: '–',
        figure: `${idle.toFixed(0)} MB`,
        reach: '≤ 100 MB',
        met: idle <= 100,
      },
      {
        what: 'agent, after more than 1 GB through it (PSS)',
        ours: `${after.toFixed(0)} MB`,
        floor: '–',
        figure: `${after.toFixed(0)} MB`,
        reach: '≤ 140 MB',
        met: after <= 140,
      },
    ];
  } finally {
    for (const { child } of parts) child.kill();
    await server.stop();
  }
}

async function samples<T>(count: number, take: () => T): Promise<T[]> {
  const all: T[] = [];
  for (let i = 0; i < count; i++) {
    all.push(take());
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return all;
}

/** With a delay once between the command and the server, and once between the agent and the server. */
async function benchDelay(): Promise<Row[]> {
  const source = await startPart('source');
  const long = await startPart('pipe', 1, DELAY_MS);
  // agents of this server dial through the delay
  const server = await startCoderServer({
    env: { CODER_VERBOSE: 'false', CODER_ACCESS_URL: `http://127.0.0.1:${long.port}` },
  });
  long.child.send(Number(new URL(server.url).port));
  const near = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  const toNear = await startPart('pipe', new URL(near.url).port, DELAY_MS);
  const children = [source.child, long.child, toNear.child];
  try {
    await readyWorkspace(server);
    await readyWorkspace(near);
    const agentFar = await forward(server, server.url, source.port);
    const clientFar = await forward(near, `http://127.0.0.1:${toNear.port}`, source.port);
    children.push(agentFar.child, clientFar.child);
    const floor = (256 * 1024) / ((2 * DELAY_MS) / 1_000) / 1e6;
    const row = async (what: string, run: () => Promise<unknown>): Promise<Row> => {
      const ms: number[] = [];
      for (let i = 0; i < 4; i++) ms.push(await timed(run));
      const rate = DELAYED_BULK / 1e6 / (median(ms.slice(1)) / 1_000);
      return {
        what,
        ours: `${rate.toFixed(0)} MB/s`,
        floor: `${floor.toFixed(1)} MB/s (256 KiB ÷ round trip)`,
        figure: `${rate.toFixed(0)} MB/s`,
        reach: '≥ 40 MB/s',
        met: rate >= 40,
      };
    };
    const shell = (url: string, on: ServerProcess) => () =>
      new Promise<void>((resolve, reject) => {
        const args = [...PROGRAM.slice(1), 'ssh', 'dev', '--', 'head', '-c', String(DELAYED_BULK), '/dev/zero'];
        const env = { ...on.env, CODER_URL: url, CODER_SESSION_TOKEN: on.token };
        const child = spawn(PROGRAM[0]!, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
        child.stdout.resume();
        child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`ssh ended with ${code}`))));
      });
    const far = `${DELAY_MS} ms each way to the`;
    return [
      await row(`port-forward with ${far} client`, () => fetchBytes(clientFar.port, DELAYED_BULK)),
      await row(`port-forward with ${far} agent`, () => fetchBytes(agentFar.port, DELAYED_BULK)),
      await row(`coder ssh with ${far} client`, shell(`http://127.0.0.1:${toNear.port}`, near)),
      await row(`coder ssh with ${far} agent`, shell(server.url, server)),
    ];
  } finally {
    for (const child of children) child.kill();
    await server.stop();
    await near.stop();
  }
}

/** The throughput of `coder port-forward`, without and with a delay, and the agent's memory. */
export async function benchTunnels(): Promise<Row[]> {
  await ensureExecutable();
  return [...(await benchForward()), ...(await benchDelay())];
}
