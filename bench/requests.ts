import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fastify } from 'fastify';
import { createWorkspace, firstUser, makeTemplate, type ServerProcess, startCoderServer } from '../e2e/harness.ts';
import { paired, processesBelow, type Row } from './measure.ts';

const CONNECTIONS = 16;
const SECONDS = 2;
const WORKSPACES = 100;

/** Requests per second to a URL at 16 connections, counted in this process (a forked one: the server has its own core). */
export async function load(url: string, token: string): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const until = performance.now() + SECONDS * 1000;
  let count = 0;
  const started = performance.now();
  const one = () =>
    new Promise<void>((resolve, reject) => {
      get(url, { agent, headers: { 'Coder-Session-Token': token } }, (answer) => {
        if (answer.statusCode !== 200) reject(new Error(`${url} answered ${answer.statusCode}`));
        answer.resume();
        answer.once('end', resolve);
      }).once('error', reject);
    });
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (performance.now() < until) {
        await one();
        count++;
      }
    }),
  );
  agent.destroy();
  return count / ((performance.now() - started) / 1000);
}

async function statics(answer: string): Promise<{ url: string; close(): Promise<void> }> {
  const app = fastify();
  app.get('/static', async (_request, reply) => reply.type('application/json; charset=utf-8').send(answer));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return { url: `${url}/static`, close: () => app.close() };
}

/** The least that an answer costs in Node.js: no framework, no routes, no sign-in. */
async function bare(answer: string): Promise<{ url: string }> {
  const head = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(answer) };
  const server = createServer({ noDelay: true }, (_request, response) => response.writeHead(200, head).end(answer));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

// this file is also the load generator and the servers of the floors, each in a separate process
const role = process.argv[2];
if (role === 'load') {
  process.on('message', async ({ url, token }: { url: string; token: string }) => {
    process.send!(await load(url, token));
  });
} else if (role === 'static' || role === 'bare') {
  process.on('message', async (answer: string) => {
    process.send!((await (role === 'static' ? statics : bare)(answer)).url);
  });
}

/** Starts a process that answers every request with this text. */
async function startFloor(kind: 'static' | 'bare', answer: string): Promise<{ url: string; child: ChildProcess }> {
  const child = fork(import.meta.filename, [kind]);
  child.send(answer);
  const [url] = (await once(child, 'message')) as [string];
  return { url, child };
}

const processorMs = (child: ChildProcess) => processesBelow(child.pid!).find(({ pid }) => pid === child.pid)!.own;

/**
 * The processor time of a request, compared with a bare server of `node:http`. It does not depend on the speed of the
 * generator, which is the limit of the requests per second.
 */
async function benchProcessor(
  server: ServerProcess,
  path: string,
  atMost: number,
  perSecond: (url: string) => Promise<number>,
): Promise<Row> {
  const floor = await startFloor('bare', JSON.stringify((await server.api('GET', path)).body));
  const spent = async (child: ChildProcess, url: string) => {
    const before = processorMs(child);
    const count = (await perSecond(url)) * SECONDS;
    return ((processorMs(child) - before) * 1_000) / count;
  };
  try {
    const pair = await paired(
      5,
      () => spent(server.child, `${server.url}/api/v2${path}`),
      () => spent(floor.child, floor.url),
    );
    return {
      what: `GET ${path}, processor time, compared with node:http alone`,
      ours: `${pair.ours.toFixed(0)} µs`,
      floor: `${pair.floor.toFixed(0)} µs`,
      figure: `${pair.ratio.toFixed(2)}×`,
      reach: `≤ ${atMost}×`,
      met: pair.ratio <= atMost,
    };
  } finally {
    floor.child.kill();
  }
}

/** The hottest reads, compared with the same bytes as a static route of the same framework. */
export async function benchRequests(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false', CODER_PROVISIONER_DAEMONS: '3' } });
  const generator = fork(import.meta.filename, ['load']);
  try {
    await firstUser(server);
    const templateId = await makeTemplate(server, 'bench', { 'main.tf': 'resource "terraform_data" "x" {}' });
    for (let i = 0; i < WORKSPACES; i++) await createWorkspace(server, templateId, `w-${i}`);
    for (;;) {
      const { body } = await server.api<{ count: number }>('GET', '/workspaces?q=status:running');
      if (body.count === WORKSPACES) break;
      await new Promise((done) => setTimeout(done, 200));
    }
    const perSecond = async (url: string): Promise<number> => {
      generator.send({ url, token: server.token });
      const [count] = (await once(generator, 'message')) as [number];
      return count;
    };
    const rows: Row[] = [];
    for (const [path, reach] of [
      ['/users/me', 0.4],
      ['/workspaces?limit=25', 0.15],
      ['/templates', 0.3],
      ['/organizations', 0.3],
    ] as const) {
      const { url, child } = await startFloor('static', JSON.stringify((await server.api('GET', path)).body));
      const pair = await paired(
        5,
        () => perSecond(`${server.url}/api/v2${path}`),
        () => perSecond(url),
      );
      child.kill();
      rows.push({
        what: `GET ${path}, ${CONNECTIONS} connections`,
        ours: `${pair.ours.toFixed(0)}/s`,
        floor: `${pair.floor.toFixed(0)}/s`,
        figure: `${pair.ratio.toFixed(2)}×`,
        reach: `≥ ${reach}×`,
        met: pair.ratio >= reach,
      });
    }
    for (const [path, atMost] of [
      ['/users/me', 2.5],
      ['/organizations', 3],
    ] as const)
      rows.push(await benchProcessor(server, path, atMost, perSecond));
    return rows;
  } finally {
    generator.kill();
    await server.stop();
  }
}
