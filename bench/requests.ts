import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { fastify } from 'fastify';
import { createWorkspace, firstUser, makeTemplate, startCoderServer } from '../e2e/harness.ts';
import { paired, type Row } from './measure.ts';

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

// this file is also the load generator and the static server, each in a separate process
const role = process.argv[2];
if (role === 'load') {
  process.on('message', async ({ url, token }: { url: string; token: string }) => {
    process.send!(await load(url, token));
  });
} else if (role === 'static') {
  process.on('message', async (answer: string) => {
    process.send!((await statics(answer)).url);
  });
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
      const answer = JSON.stringify((await server.api('GET', path)).body);
      const floor = fork(import.meta.filename, ['static']);
      floor.send(answer);
      const [url] = (await once(floor, 'message')) as [string];
      const pair = await paired(
        5,
        () => perSecond(`${server.url}/api/v2${path}`),
        () => perSecond(url),
      );
      floor.kill();
      rows.push({
        what: `GET ${path}, ${CONNECTIONS} connections`,
        ours: `${pair.ours.toFixed(0)}/s`,
        floor: `${pair.floor.toFixed(0)}/s`,
        figure: `${pair.ratio.toFixed(2)}×`,
        reach: `≥ ${reach}×`,
        met: pair.ratio >= reach,
      });
    }
    return rows;
  } finally {
    generator.kill();
    await server.stop();
  }
}
