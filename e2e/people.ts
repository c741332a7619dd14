// What people do all the time, so that a test can change the servers meanwhile and see that nothing is lost.

import { createHash, randomBytes } from 'node:crypto';
import { get } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startEcho } from '@ropewalk/testkit/echo';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { NOTICED_MS } from './balancer.ts';
import { needsBrowser, openAs, startBrowser } from './dashboard/browser.ts';
import type { Deployment } from './deployment.ts';
import {
  buildEnds,
  type Connection,
  commandTemplate,
  createWorkspace,
  eventually,
  freePort,
  importVersion,
  makeTemplate,
  type RunningProgram,
  startProgram,
  type Workspace,
} from './harness.ts';
import { localExample } from './local.ts';
import { agentsOf, isReady } from './pool.ts';

/** The pause before a load tries again, where no server answers, in ms. */
const AGAIN_MS = 200;
const TRANSFER_BYTES = 100 * 1024 * 1024;

/** The lines of the long build's log, four per second. */
const linesIn = (seconds: number) => seconds * 4;

/** One of the times when people work. */
interface Turn {
  /** What they make is named after it. */
  number: number;
  /** How long they work, about, in s. */
  seconds: number;
  /** The id of a template whose builds take as long. */
  template: string;
}

/** People of a deployment, with a workspace `dev`. */
export interface People {
  site: Connection;
  /** Of the balancer. */
  url: string;
  /** What they do now, or did last. */
  turn: Turn;
  /** Of the workspace's agent. */
  agent: string;
  /** The ids of templates, and of a version with a form. */
  templates: { quick: string; form: string };
  /** Where a program in the workspace sends back what it receives. */
  echoPort: number;
  /** Starts their coder command. */
  run(...args: string[]): RunningProgram;
  /** Ends the program in the workspace. */
  end(): void;
}

/** Makes the templates and the workspace of people who use this coder command. */
export async function invitePeople(
  deployment: Pick<Deployment, 'site' | 'url' | 'env'>,
  command: readonly string[],
): Promise<People> {
  const { site, url } = deployment;
  const template = await makeTemplate(site, 'local', localExample());
  const { id } = await createWorkspace(site, template, 'dev');
  const agent = agentsOf(await isReady(site, id))[0]!.id;
  const templates = {
    quick: await makeTemplate(site, 'quick', commandTemplate('sleep 3')),
    form: (await importVersion(site, FORM)).id,
  };
  const echo = await startEcho();
  return {
    site,
    url,
    turn: { number: 0, seconds: 0, template: '' },
    agent,
    templates,
    echoPort: echo.port,
    run: (...args) => startProgram(command, args, { env: deployment.env() }),
    end: echo.close,
  };
}

export interface Work {
  /** What was lost, doubled or ended, each with its time. */
  violations: string[];
  /** The changes of the servers, each with its time. */
  changes: string;
  /** How often each load did its work, and how fast requests were. */
  summary: string;
  /** Of requests away from changes, in ms. */
  p99: number;
}

/** The next time when people work, for so many seconds. */
async function nextTurn({ site, turn }: People, seconds: number): Promise<Turn> {
  const number = turn.number + 1;
  const script = `for i in $(seq ${linesIn(seconds)}); do echo "line $i"; sleep 0.25; done`;
  return { number, seconds, template: await makeTemplate(site, `long-${number}`, commandTemplate(script)) };
}

/**
 * Lets people work for so many seconds while `during` changes the servers. It reports each change: requests that begin or end while the
 * balancer may not know it may fail. `log` gets each event when it happens.
 */
export async function work(
  people: People,
  seconds: number,
  during: (report: (change: string) => void) => Promise<void>,
  log: (text: string) => void = () => {},
): Promise<Work> {
  people.turn = await nextTurn(people, seconds);
  const over = new AbortController();
  const began = performance.now();
  const violations: string[] = [];
  const changes: { at: number; text: string }[] = [];
  const since = (at = performance.now()) => `${((at - began) / 1_000).toFixed(1)} s`;
  const times: Times = [];
  const probing = probe(people, times, over.signal);
  const loads = Object.entries(LOADS).map(async ([name, load]) => {
    const violation = (text: string) => {
      violations.push(`${since()} ${name}: ${text}`);
      log(violations.at(-1)!);
    };
    const count = await load(people, violation, over.signal).catch((err: Error) => violation(String(err.stack)));
    if (count === 0) violation('it never did its work');
    return `${name} ${count}`;
  });
  // they are all at work
  await delay(8_000);
  await during((text) => {
    changes.push({ at: performance.now(), text });
    log(`${since()} ${text}`);
  }).finally(() => over.abort());
  const done = await Promise.all(loads);
  await probing;
  const isNear = (at: number) => changes.some((change) => Math.abs(at - change.at) < NOTICED_MS);
  const quiet = times.filter(({ at, ms }) => !isNear(at) && !isNear(at + ms));
  for (const { at, failed } of quiet) if (failed) violations.push(`${since(at)} request: ${failed}`);
  const p99 = quiet.map(({ ms }) => ms).toSorted((a, b) => a - b)[Math.floor(quiet.length * 0.99)] ?? 0;
  const summary = `${done.join(', ')}; ${times.length} requests, p99 away from changes ${p99.toFixed(0)} ms`;
  log(summary);
  return { violations, changes: changes.map(({ at, text }) => `${since(at)} ${text}`).join(', '), summary, p99 };
}

/** Runs until it is over, reports each violation, and returns how often it did its work. */
type Load = (people: People, violation: (text: string) => void, over: AbortSignal) => Promise<number>;

const builds: Load = async (people, violation, over) => {
  const { site } = people;
  let n = 0;
  for (; !over.aborted; n += 1) {
    const name = `quick-${people.turn.number}-${n}`;
    const found = await eventually('the workspace', async () => {
      const answer = await site.api<Workspace>('GET', `/users/me/workspace/${name}`).catch(() => undefined);
      if (answer?.status === 200) return answer.body;
      // not asked for yet, or the request did not reach a server
      if (answer?.status === 404)
        await site.api('POST', '/users/me/workspaces', { name, template_id: people.templates.quick }).catch(() => {});
      return undefined;
    });
    const build = await buildEnds(site, found.latest_build.id, 120_000);
    if (build.status !== 'running') violation(`build of ${name}: ${build.status}: ${build.job.error}`);
  }
  return n;
};

const shell: Load = async (people, violation, over) => {
  const { run, turn } = people;
  const session = run('ssh', 'dev', '--', 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.1; done');
  session.ended.then((code) => {
    if (!over.aborted) violation(`the SSH session ended with ${code}: ${session.err()}`);
  });
  await new Promise((resolve) => over.addEventListener('abort', resolve));
  const seen = session.out().split('\n').slice(0, -1);
  session.child.kill();
  await session.ended;
  const wrong = seen.findIndex((line, at) => line !== `line ${at}`);
  if (wrong >= 0) violation(`line ${wrong} of the SSH session is ${JSON.stringify(seen[wrong])}`);
  if (seen.length < turn.seconds * 5) violation(`only ${seen.length} lines in ${turn.seconds} s`);
  return seen.length;
};

const forward: Load = async (people, violation, over) => {
  const { run } = people;
  const port = await freePort();
  const target = people.echoPort;
  const command = run('port-forward', 'dev', '--tcp', `${port}:${target}`);
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

const logs: Load = async (people, violation) => {
  const { site, url, turn } = people;
  const lines = linesIn(turn.seconds);
  const { latest_build } = await createWorkspace(site, turn.template, `long-${turn.number}`);
  const ids = new Set<number>();
  const seen: number[] = [];
  let last = 0;
  for (;;) {
    const headers = { 'Coder-Session-Token': site.token };
    const address = `${url}/api/v2/workspacebuilds/${latest_build.id}/logs?follow&after=${last}`;
    const dialed = await dialWebSocket(address, { headers, timeoutMs: 5_000 }).catch(() => undefined);
    dialed?.connection.on('text', (text: string) => {
      const { id, output } = JSON.parse(text) as { id: number; output: string };
      if (ids.has(id)) violation(`log line ${id} twice`);
      ids.add(id);
      last = Math.max(last, id);
      const number = /line (\d+)$/.exec(output)?.[1];
      if (number) seen.push(Number(number));
    });
    // a server that goes away ends the stream with another code
    if ((await dialed?.connection.closed)?.code === 1000) break;
    await delay(AGAIN_MS);
  }
  const build = await buildEnds(site, latest_build.id);
  if (build.status !== 'running') violation(`the long build: ${build.status}: ${build.job.error}`);
  const wrong = seen.findIndex((number, at) => number !== at + 1);
  if (wrong >= 0 || seen.length !== lines)
    violation(`log: ${seen.length} of ${lines} lines, the first wrong: ${wrong}`);
  return seen.length;
};

const metadata: Load = async (people, violation, over) => {
  const { site, url } = people;
  let received = performance.now();
  let values = 0;
  const watch = async () => {
    while (!over.aborted) {
      const stalled = AbortSignal.any([over, AbortSignal.timeout(30_000)]);
      await fetch(`${url}/api/v2/workspaceagents/${people.agent}/watch-metadata`, {
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

const forms: Load = async (people, violation, over) => {
  const { site, url } = people;
  interface Answer {
    id: number;
    parameters: { name: string; value: { value: string } }[];
  }
  let answers = 0;
  for (let n = 1; !over.aborted; ) {
    const address = `${url}/api/v2/templateversions/${people.templates.form}/dynamic-parameters`;
    const dialed = await dialWebSocket(address, {
      headers: { 'Coder-Session-Token': site.token },
      timeoutMs: 5_000,
    }).catch(() => undefined);
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

const dashboard: Load = async (people, violation, over) => {
  const { site, url } = people;
  if (needsBrowser.skip) return Number.NaN;
  const browser = await startBrowser();
  let changes = 0;
  try {
    const { page } = await openAs(browser, { url: url }, site.token);
    await page.goto('/templates');
    await page.evaluate('window.loadedOnce = true');
    for (let n = 0; !over.aborted; n += 1) {
      const name = `page-${people.turn.number}-${n}`;
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

/**
 * Begins a request every 50 ms, each over a new connection: one of a pool could lead to a server that stopped long ago, and the
 * next would wait for it.
 */
async function probe({ site, url }: People, times: Times, over: AbortSignal): Promise<void> {
  const running = new Set<Promise<void>>();
  while (!over.aborted) {
    const at = performance.now();
    const request = list(url, site.token)
      .then((failed) => void times.push({ at, ms: performance.now() - at, failed }))
      .finally(() => running.delete(request));
    running.add(request);
    await delay(50);
  }
  await Promise.all(running);
}

/** Reads workspaces. Returns why that failed. */
function list(url: string, token: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const headers = { 'Coder-Session-Token': token };
    const options = { agent: false, headers, signal: AbortSignal.timeout(10_000) };
    get(`${url}/api/v2/workspaces?limit=10`, options, (answer) => {
      answer.resume();
      answer.once('error', (err) => resolve(err.message));
      answer.once('end', () => resolve(answer.statusCode === 200 ? undefined : String(answer.statusCode)));
    }).once('error', (err) => resolve(err.message));
  });
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

const LOADS = { builds, shell, forward, logs, metadata, forms, dashboard };
