import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { startCoderServer } from '../e2e/harness.ts';
import { paired, type Row } from './measure.ts';
import { readyWorkspace } from './ready-workspace.ts';
import { type Part, startPart } from './traffic.ts';

const MIB = 1024 * 1024;
const DOWNLOAD = 200 * MIB;
const CONNECTIONS = 16;
const REQUESTS = 32_000;
const SMALL = Buffer.from(JSON.stringify({ message: 'hello', padding: 'x'.repeat(200) }));
const PART = Buffer.alloc(64 * 1024, 'x');

/** The app in the workspace: a small response at `/`, a large one at `/big`. */
function serveApp(): void {
  const server = createHttpServer((request, response) => {
    if (request.url !== '/big') {
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': SMALL.length }).end(SMALL);
      return;
    }
    response.writeHead(200, { 'Content-Length': DOWNLOAD });
    let left = DOWNLOAD;
    const send = () => {
      while (left > 0) {
        left -= PART.length;
        if (!response.write(PART)) {
          response.once('drain', send);
          return;
        }
      }
      response.end();
    };
    send();
  });
  server.keepAliveTimeout = 120_000;
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
}

if (process.argv[2] === 'app') serveApp();

async function startApp(): Promise<Part> {
  const child = fork(import.meta.filename, ['app']);
  const [port] = (await once(child, 'message')) as [number];
  return { port, child };
}

interface Way {
  port: number;
  /** Head of a request without its first line. */
  headers: string;
}

const dialed = async ({ port }: Way): Promise<Socket> => {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
};

/** The length of a response, from its first bytes. */
function answerLength(part: Buffer): number {
  const end = part.indexOf('\r\n\r\n');
  const head = part.subarray(0, end).toString('latin1');
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (!head.startsWith('HTTP/1.1 200') || length === undefined) throw new Error(`not the answer: ${head}`);
  return end + 4 + Number(length);
}

/** Milliseconds for the requests, sent one at a time on each connection. */
async function many(way: Way): Promise<number> {
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => dialed(way)));
  const request = `GET / HTTP/1.1\r\n${way.headers}\r\n`;
  const started = performance.now();
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve, reject) => {
          let left = REQUESTS / CONNECTIONS;
          let missing = 0;
          socket.on('data', (part: Buffer) => {
            try {
              missing = (missing === 0 ? answerLength(part) : missing) - part.length;
            } catch (err) {
              reject(err as Error);
            }
            if (missing > 0) return;
            left--;
            if (left > 0) socket.write(request);
            else resolve();
          });
          socket.on('error', reject);
          socket.write(request);
        }),
    ),
  );
  const ms = performance.now() - started;
  for (const socket of sockets) socket.destroy();
  return ms;
}

/** Milliseconds for the large response. */
async function download(way: Way): Promise<number> {
  const socket = await dialed(way);
  const started = performance.now();
  let missing = 0;
  await new Promise<void>((resolve, reject) => {
    socket.on('data', (part: Buffer) => {
      missing = (missing === 0 ? answerLength(part) : missing) - part.length;
      if (missing === 0) resolve();
    });
    socket.on('error', reject);
    socket.write(`GET /big HTTP/1.1\r\n${way.headers}\r\n`);
  });
  const ms = performance.now() - started;
  socket.destroy();
  return ms;
}

/** A web app through server and agent, compared with the app itself and with plain pipes through as many processes. */
export async function benchApps(): Promise<Row[]> {
  const server = await startCoderServer({
    env: { CODER_VERBOSE: 'false', CODER_WILDCARD_ACCESS_URL: '*.apps.test' },
  });
  const app = await startApp();
  const inner = await startPart('pipe', app.port);
  const outer = await startPart('pipe', inner.port);
  try {
    await readyWorkspace(server);
    const host = `${app.port}--main--dev--admin.apps.test`;
    const port = Number(new URL(server.url).port);
    /** With a grant that was just issued, as a browser has one. */
    const granted = async (): Promise<Way> => {
      const socket = await dialed({ port, headers: '' });
      socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nCoder-Session-Token: ${server.token}\r\n\r\n`);
      const [part] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      const cookie = /^set-cookie: (coder_signed_app_token=[^;]+)/im.exec(part.toString('latin1'))?.[1];
      if (!cookie) throw new Error(`no grant: ${part.toString('latin1')}`);
      // a change of the workspace ends the grant, and the session gets the next one
      return { port, headers: `Host: ${host}\r\nCookie: ${cookie}\r\nCoder-Session-Token: ${server.token}\r\n` };
    };
    const itself = { port: app.port, headers: `Host: ${host}\r\n` };
    const piped = { port: outer.port, headers: `Host: ${host}\r\n` };
    const requests = await paired(
      9,
      async () => many(await granted()),
      () => many(itself),
      { warmUp: 4 },
    );
    const bulk = await paired(
      7,
      async () => download(await granted()),
      () => download(piped),
    );
    const perSecond = (ms: number) => `${(REQUESTS / (ms / 1_000)).toFixed(0)}/s`;
    const speed = (ms: number) => `${(DOWNLOAD / MIB / (ms / 1_000)).toFixed(0)} MiB/s`;
    return [
      {
        what: `app, small answer, ${CONNECTIONS} connections, compared with the app itself`,
        ours: perSecond(requests.ours),
        floor: perSecond(requests.floor),
        figure: `${(1 / requests.ratio).toFixed(2)}×`,
        reach: '≥ 0.25×',
        met: 1 / requests.ratio >= 0.25,
      },
      {
        what: 'app, download of 200 MiB, compared with plain TCP pipes through as many processes',
        ours: speed(bulk.ours),
        floor: speed(bulk.floor),
        figure: `${(1 / bulk.ratio).toFixed(2)}×`,
        reach: '≥ 0.6×',
        met: 1 / bulk.ratio >= 0.6,
      },
    ];
  } finally {
    for (const { child } of [app, inner, outer]) child.kill();
    await server.stop();
  }
}
