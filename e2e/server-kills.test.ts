import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { type Backend, type Balancer, checkHealth, startBalancer } from './balancer.ts';
import { needsBrowser, openAs, startBrowser } from './dashboard/browser.ts';
import {
  buildEnds,
  CHECKOUT,
  type Connection,
  commandTemplate,
  connectTo,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  importVersion,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
  startProgram,
  type Workspace,
} from './harness.ts';
import { localExample } from './local.ts';
import { agentsOf, isReady } from './pool.ts';

// Three servers behind a balancer, one of which is always about to fail, while people build, type, forward ports, follow
// logs and watch pages. Nothing may be lost, doubled or ended. KILL_TEST_SECONDS sets how long, such as 300, and
// KILL_TEST_LOG a file that shows how it goes.

const SECONDS = Number(process.env['KILL_TEST_SECONDS'] ?? 80);
const FAULT_EVERY_MS = 10_000;
/** A stopped server stays so for longer than the others wait for its sign of life. */
const STOPPED_MS = 20_000;
const CUT_MS = 8_000;
/** The lines of the long build's log, four per second. */
const LINES = SECONDS * 4;
/** The pause before a load tries again, where no server answers. */
const AGAIN_MS = 200;
const TRANSFER_BYTES = 100 * 1024 * 1024;

interface Member extends Backend {
  server: ServerProcess;
  /** Between the other servers and this one. */
  peers: Pipe;
}

let balancer: Balancer;
const members: Member[] = [];
/** By the balancer, as all people. */
let site: Connection;
let agent: string;
/** The ids of templates, and of a version with a form. */
let made: { quick: string; long: string; form: string };
/** A server in the workspace that sends back what it receives. */
let echo: Server;
const ending = new AbortController();
const first = () => members[0]!.server;
const env = () => ({ ...first().env, CODER_URL: balancer.url, CODER_SESSION_TOKEN: first().token });

before(async () => {
  await ensureExecutable();
  balancer = await startBalancer();
  for (let n = 0; n < 3; n += 1) {
    const port = await freePort();
    const peers = await startPipe({ port, host: '127.0.0.1' });
    const server = await startCoderServer({
      port,
      ...(n > 0 ? { joins: first() } : {}),
      env: {
        CODER_ACCESS_URL: balancer.url,
        CODER_DERP_SERVER_RELAY_URL: `http://127.0.0.1:${peers.port}`,
        CODER_PROVISIONER_DAEMONS: '2',
        CODER_SHUTDOWN_DELAY: '2s',
      },
    });
    members.push({ server, peers, healthy: false });
    if (n === 0) await firstUser(server);
  }
  void checkHealth(balancer, members, ending.signal);
  await eventually('the balancer uses all', () => members.every(({ healthy }) => healthy));
  site = connectTo(balancer.url);
  site.token = first().token;
  const template = await makeTemplate(site, 'local', localExample());
  const { id } = await createWorkspace(site, template, 'dev');
  agent = agentsOf(await isReady(site, id))[0]!.id;
  made = {
    quick: await makeTemplate(site, 'quick', commandTemplate('sleep 3')),
    long: await makeTemplate(
      site,
      'long',
      commandTemplate(`for i in $(seq ${LINES}); do echo "line $i"; sleep 0.25; done`),
    ),
    form: (await importVersion(site, FORM)).id,
  };
  echo = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  ending.abort();
  for (const { server } of members.toReversed()) {
    server.child.kill('SIGCONT');
    await server.stop();
  }
  for (const { peers } of members) peers.close();
  balancer?.close();
  echo?.close();
});

const startCoder = (...args: string[]) => startProgram(CHECKOUT, args, { env: env() });

const FAULTS: Record<string, (member: Member) => Promise<void>> = {
  async kill({ server }) {
    await server.kill();
    await delay(1_000);
    await server.restart();
  },
  async terminate({ server }) {
    const gone = new Promise((resolve) => server.child.once('exit', resolve));
    server.child.kill('SIGTERM');
    await gone;
    await server.restart();
  },
  async stop({ server }) {
    server.child.kill('SIGSTOP');
    await delay(STOPPED_MS);
    server.child.kill('SIGCONT');
  },
  async cut({ peers }) {
    peers.cut();
    await delay(CUT_MS);
    peers.mend();
  },
};

/** Makes one server after another fail until the time is over. Returns when each fault began and ended, in ms. */
async function fail(report: (text: string) => void): Promise<void> {
  const until = performance.now() + SECONDS * 1_000;
  const kinds = Object.keys(FAULTS);
  for (let n = 0; performance.now() < until; n += 1) {
    const kind = kinds[n % kinds.length]!;
    const member = members[n % members.length]!;
    const next = delay(FAULT_EVERY_MS);
    report(`${kind} server ${n % members.length}`);
    await FAULTS[kind]!(member);
    report(`${kind} is over`);
    await eventually('the server is in use again', () => member.healthy);
    await next;
  }
}

/** Runs until the faults are over, reports each violation, and returns how often it did its work. */
type Load = (violation: (text: string) => void, over: AbortSignal) => Promise<number>;

/** Asks again while no server answers, as programs do whose connection breaks. */
async function insist<T>(path: string): Promise<T> {
  return eventually(`GET ${path}`, async () => {
    const answer = await site.api<T>('GET', path).catch(() => undefined);
    if (!answer || answer.status >= 500) return undefined;
    assert.ok(answer.status < 300, `GET ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  });
}

const builds: Load = async (violation, over) => {
  let n = 0;
  for (; !over.aborted; n += 1) {
    const name = `quick-${n}`;
    const found = await eventually('the workspace', async () => {
      const answer = await site.api<Workspace>('GET', `/users/me/workspace/${name}`).catch(() => undefined);
      if (answer?.status === 200) return answer.body;
      // not asked for yet, or the request did not reach a server
      if (answer?.status === 404)
        await site.api('POST', '/users/me/workspaces', { name, template_id: made.quick }).catch(() => {});
      return undefined;
    });
    const build = await buildEnds(site, found.latest_build.id, 120_000);
    if (build.status !== 'running') violation(`build of ${name}: ${build.status}: ${build.job.error}`);
  }
  return n;
};

const shell: Load = async (violation, over) => {
  const session = startCoder('ssh', 'dev', '--', 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.1; done');
  session.ended.then((code) => {
    if (!over.aborted) violation(`the SSH session ended with ${code}: ${session.err()}`);
  });
  await new Promise((resolve) => over.addEventListener('abort', resolve));
  const seen = session.out().split('\n').slice(0, -1);
  session.child.kill();
  await session.ended;
  const wrong = seen.findIndex((line, at) => line !== `line ${at}`);
  if (wrong >= 0) violation(`line ${wrong} of the SSH session is ${JSON.stringify(seen[wrong])}`);
  if (seen.length < SECONDS * 5) violation(`only ${seen.length} lines in ${SECONDS} s`);
  return seen.length;
};

const forward: Load = async (violation, over) => {
  const port = await freePort();
  const target = (echo.address() as AddressInfo).port;
  const command = startCoder('port-forward', 'dev', '--tcp', `${port}:${target}`);
  command.ended.then((code) => {
    if (!over.aborted) violation(`the forward ended with ${code}: ${command.err()}`);
  });
  await eventually('it listens', () => /Ready!/.test(command.out() + command.err()));
  const part = randomBytes(1024 * 1024);
  let transfers = 0;
  for (; !over.aborted; transfers += 1) {
    const socket = connect(port, '127.0.0.1');
    const [sent, got] = [createHash('sha256'), createHash('sha256')];
    let received = 0;
    const ended = new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.once('close', () => resolve());
      socket.on('data', (data) => {
        got.update(data);
        received += data.length;
        if (received === TRANSFER_BYTES) socket.end();
      });
    });
    ended.catch(() => {});
    try {
      for (let bytes = 0; bytes < TRANSFER_BYTES; bytes += part.length) {
        sent.update(part);
        if (!socket.write(part)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), ended]);
        // slow enough to be in the middle of it when a server fails
        await delay(50);
      }
      await ended;
      if (received !== TRANSFER_BYTES || sent.digest('hex') !== got.digest('hex'))
        violation(`${received} of ${TRANSFER_BYTES} bytes came back, or others`);
    } catch (err) {
      violation(`a forwarded connection broke after ${received} bytes: ${String(err)}: ${command.err()}`);
    }
  }
  command.child.kill();
  await command.ended;
  return transfers;
};

const logs: Load = async (violation) => {
  const { latest_build } = await createWorkspace(first(), made.long, 'long');
  const ids = new Set<number>();
  const seen: number[] = [];
  let last = 0;
  const isOver = () => insist<{ job: { completed_at?: string } }>(`/workspacebuilds/${latest_build.id}`);
  for (;;) {
    const headers = { 'Coder-Session-Token': site.token };
    const url = `${balancer.url}/api/v2/workspacebuilds/${latest_build.id}/logs?follow&after=${last}`;
    const dialed = await dialWebSocket(url, { headers, timeoutMs: 5_000 }).catch(() => undefined);
    dialed?.connection.on('text', (text: string) => {
      const { id, output } = JSON.parse(text) as { id: number; output: string };
      if (ids.has(id)) violation(`log line ${id} twice`);
      ids.add(id);
      last = Math.max(last, id);
      const number = /line (\d+)$/.exec(output)?.[1];
      if (number) seen.push(Number(number));
    });
    await dialed?.connection.closed;
    if ((await isOver()).job.completed_at) break;
    await delay(AGAIN_MS);
  }
  const build = await buildEnds(site, latest_build.id);
  if (build.status !== 'running') violation(`the long build: ${build.status}: ${build.job.error}`);
  const wrong = seen.findIndex((number, at) => number !== at + 1);
  if (wrong >= 0 || seen.length !== LINES)
    violation(`log: ${seen.length} of ${LINES} lines, the first wrong: ${wrong}`);
  return seen.length;
};

const metadata: Load = async (violation, over) => {
  let received = performance.now();
  let values = 0;
  const watch = async () => {
    while (!over.aborted) {
      const stalled = AbortSignal.any([over, AbortSignal.timeout(30_000)]);
      await fetch(`${balancer.url}/api/v2/workspaceagents/${agent}/watch-metadata`, {
        headers: { 'Coder-Session-Token': site.token },
        signal: stalled,
      })
        .then(async ({ body, ok }) => {
          if (!ok || !body) return;
          for await (const part of body.pipeThrough(new TextDecoderStream()))
            if (part.includes('load')) {
              received = performance.now();
              values += 1;
            }
        })
        .catch(() => {});
      await delay(AGAIN_MS);
    }
  };
  const watching = watch();
  while (!over.aborted) {
    await delay(500);
    const silent = performance.now() - received;
    if (silent > 35_000) {
      violation(`no metadata for ${Math.round(silent / 1_000)} s`);
      received = performance.now();
    }
  }
  await watching;
  return values;
};

const forms: Load = async (violation, over) => {
  interface Answer {
    id: number;
    parameters: { name: string; value: { value: string } }[];
  }
  let answers = 0;
  for (let n = 1; !over.aborted; ) {
    const url = `${balancer.url}/api/v2/templateversions/${made.form}/dynamic-parameters`;
    const dialed = await dialWebSocket(url, { headers: { 'Coder-Session-Token': site.token }, timeoutMs: 5_000 }).catch(
      () => undefined,
    );
    if (!dialed) {
      await delay(AGAIN_MS);
      continue;
    }
    const { connection } = dialed;
    let answered: ((answer: Answer) => void) | undefined;
    connection.on('text', (text: string) => answered?.(JSON.parse(text) as Answer));
    // a form is typed into for a while, then another is opened
    for (const stop = n + 50; n < stop && !over.aborted; n += 1) {
      const answer = new Promise<Answer>((resolve) => (answered = resolve));
      connection.sendText(JSON.stringify({ id: n, inputs: { size: String(n) } }));
      const got = await Promise.race([answer, connection.closed.then(() => undefined), delay(20_000, 'late' as const)]);
      if (got === 'late') connection.destroy();
      if (got === undefined || got === 'late') break;
      if (got.id !== n) continue;
      const more = got.parameters.find(({ name }) => name === 'more')?.value.value;
      answers += 1;
      if (more !== `size ${n}`) violation(`the form says ${more} for ${n}`);
      await delay(100);
    }
    connection.close();
  }
  return answers;
};

const dashboard: Load = async (violation, over) => {
  if (needsBrowser.skip) return Number.NaN;
  const browser = await startBrowser();
  let changes = 0;
  try {
    const { page } = await openAs(browser, { url: balancer.url }, site.token);
    await page.goto('/templates');
    await page.evaluate('window.loadedOnce = true');
    for (let n = 0; !over.aborted; n += 1) {
      const name = `page-${n}`;
      const isMade = await makeTemplate(site, name, { 'main.tf': '' }).then(
        () => true,
        () => false,
      );
      if (!isMade) {
        await delay(AGAIN_MS);
        continue;
      }
      const since = performance.now();
      await page
        .getByText(name, { exact: true })
        .first()
        .waitFor({ timeout: 30_000 })
        .then(() => (changes += 1))
        .catch(() => violation(`${name} did not appear on the page in ${Math.round(performance.now() - since)} ms`));
      await delay(2_000);
    }
    if ((await page.evaluate('window.loadedOnce')) !== true) violation('the page was loaded again');
  } finally {
    await browser.close();
  }
  return changes;
};

/** The times of requests, with the moments at which they began. */
type Times = { at: number; ms: number; failed: string | undefined }[];

async function probe(times: Times, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    const at = performance.now();
    const failed = await fetch(`${balancer.url}/api/v2/workspaces?limit=10`, {
      headers: { 'Coder-Session-Token': site.token },
      signal: AbortSignal.timeout(10_000),
    }).then(
      async (answer) => {
        await answer.arrayBuffer();
        return answer.ok ? undefined : String(answer.status);
      },
      (err: Error) => err.message,
    );
    times.push({ at, ms: performance.now() - at, failed });
    await delay(50);
  }
}

const FORM = {
  'main.tf': `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_parameter" "size" {
  name    = "size"
  type    = "number"
  default = 1
}
data "coder_parameter" "more" {
  name    = "more"
  default = "size \${data.coder_parameter.size.value}"
}
`,
};

/** Shows how it goes while it goes, in this file. */
function log(text: string): void {
  const file = process.env['KILL_TEST_LOG'];
  if (file) appendFileSync(file, `${text}\n`);
}

const LOADS = { builds, shell, forward, logs, metadata, forms, dashboard };

test('nothing is lost, doubled or ended while servers are killed, stopped and cut off', async () => {
  const over = new AbortController();
  const began = performance.now();
  const violations: string[] = [];
  const faults: { at: number; text: string }[] = [];
  const seconds = () => `${((performance.now() - began) / 1_000).toFixed(1)} s`;
  const report = (text: string) => {
    faults.push({ at: performance.now(), text });
    log(`${seconds()} ${text}`);
  };
  const times: Times = [];
  const probing = probe(times, over.signal);
  const loads = Object.entries(LOADS).map(async ([name, load]) => {
    const violation = (text: string) => {
      violations.push(`${seconds()} ${name}: ${text}`);
      log(violations.at(-1)!);
    };
    const times = await load(violation, over.signal).catch((err: Error) => violation(String(err.stack)));
    if (times === 0) violation('it never did its work');
    return `${name} ${times}`;
  });
  await delay(8_000);
  await fail(report);
  over.abort();
  const done = await Promise.all(loads);
  await probing;
  // a request that goes to a server in the moment of its fault may fail
  const isNear = (at: number) => faults.some((fault) => at > fault.at - 2_000 && at < fault.at + 2_000);
  const quiet = times.filter(({ at, ms }) => !isNear(at) && !isNear(at + ms));
  for (const { at, failed } of quiet)
    if (failed) violations.push(`${((at - began) / 1_000).toFixed(1)} s request: ${failed}`);
  const p99 = quiet.map(({ ms }) => ms).toSorted((a, b) => a - b)[Math.floor(quiet.length * 0.99)];
  const happened = `faults: ${faults.map(({ at, text }) => `${((at - began) / 1_000).toFixed(1)} s ${text}`).join(', ')}`;
  log(`${done.join(', ')}; ${times.length} requests, p99 outside of faults ${p99?.toFixed(0)} ms`);
  assert.deepEqual(violations, [], happened);
});
