import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { Log_Level, Timing_Status } from '@ropewalk/wire/proto/agent';
import { type RunningAgent, runAgent } from './agent.ts';
import type { AgentOptions } from './options.ts';
import { startTestServer, type TestServer, TOKEN } from './testing/server.ts';

const id = (digit: string) => Buffer.from(digit.repeat(32), 'hex');
const upTo = (count: number) => Array.from({ length: count }, (_, i) => String(i + 1));

describe('logs of scripts', () => {
  let server: TestServer;
  let agent: RunningAgent | undefined;
  let dir: string;
  beforeEach(async () => {
    server = await startTestServer();
    dir = mkdtempSync(join(tmpdir(), 'agent-logs-'));
  });
  afterEach(async () => {
    await agent?.stop();
    agent = undefined;
    await server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const start = (script?: string, more: Partial<AgentOptions> = {}) => {
    const path = join(dir, 'whole.log');
    if (script !== undefined) {
      server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script, logPath: path }] };
    }
    const where = { url: server.url, token: TOKEN, scriptDataDir: dir, logDir: dir };
    agent = runAgent({ ...where, version: 'v1.2.3', log: silentLogger, reconnectCapMs: 50, ...more });
  };
  const output = () => server.received.logs.map(({ output }) => output);
  const isTold = (line: string) => server.until(`the line ${line}`, () => server.received.logs.at(-1)?.output === line);
  const ended = () => server.until('an end', () => server.received.timings.length === 1);
  /** Asserts that lines 1 to `count` arrived, except some of the middle, which a note counts. */
  const assertCutInTheMiddle = (lines: string[], count: number) => {
    const cuts = lines.flatMap((line, at) => (/lines left out/.test(line) ? [at] : []));
    assert.equal(cuts.length, 1, JSON.stringify([lines.length, cuts, cuts.map((at) => lines[at])]));
    const [cut] = cuts as [number];
    const left = Number(/\[(\d+) lines/.exec(lines[cut]!)![1]);
    assert.ok(cut > 5_000 && lines.length - cut > 5_000, `${cut} before, ${lines.length - cut} after`);
    const all = upTo(count);
    assert.equal(lines.slice(0, cut).join(), all.slice(0, cut).join());
    assert.equal(lines.slice(cut + 1).join(), all.slice(cut + left).join());
  };

  test('runs a script whose log cannot be written, says so in its log and in the state of the agent', async () => {
    const pipe = join(dir, 'pipe');
    execFileSync('mkfifo', [pipe]);
    // mkdir reports that the parent is missing, the path needs a directory, and a pipe without a reader blocks
    const paths = ['/proc/x/y', dir, pipe];
    server.manifest = {
      scripts: paths.map((logPath, at) => {
        return { id: id('1'), logSourceId: id(`${at + 2}`), runOnStart: true, script: 'echo here', logPath };
      }),
    };
    start();
    await server.until('an end', () => server.received.lifecycles.includes('START_ERROR'));
    for (const [at, path] of paths.entries()) {
      const of = () => server.received.logs.filter(({ source }) => source === `${at + 2}`.repeat(32));
      await server.until('the output', () => of().some(({ output }) => output === 'here'));
      const [first] = of();
      assert.equal(first!.level, Log_Level.ERROR);
      assert.ok(first!.output.startsWith(`Cannot write the log file "${path}": `), first!.output);
    }
    await server.until('the ends', () => server.received.timings.length === 3);
    assert.deepEqual(
      server.received.timings.map(({ exitCode, status }) => [exitCode, status]),
      paths.map(() => [0, Timing_Status.OK]),
    );
  });

  test('delivers every line in order, however fast they come', async (t) => {
    const from = performance.now();
    start('seq 1 200000');
    await ended();
    t.diagnostic(`the script ended after ${Math.round(performance.now() - from)} ms`);
    await isTold('200000');
    assert.equal(output().join(), upTo(200_000).join());
    assert.equal(server.received.timings[0]!.status, Timing_Status.OK);
  });

  test('holds back long lines and lines of stderr, too', async () => {
    start('seq 1 300000; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo out; seq 1 300000 >&2; echo last >&2');
    // Each level keeps its own order. The order between them is undefined.
    const of = (wanted: Log_Level) =>
      server.received.logs.filter(({ level }) => level === wanted).map(({ output }) => output);
    await server.until('both ends', () => output().includes('out') && output().includes('last'));
    const [out, errors] = [of(Log_Level.INFO), of(Log_Level.ERROR)];
    assert.equal(errors.join(), [...upTo(300_000), 'last'].join());
    assert.equal(out.slice(0, 300_000).join(), upTo(300_000).join());
    assert.equal(out.slice(300_000).join(''), `${'x'.repeat(3_000_000)}out`);
    assert.equal(of(Log_Level.WARN).length, 0);
  });

  test('holds back only the source that writes without end', async () => {
    start('yes');
    const other = { id: id('3'), logSourceId: id('4'), runOnStart: true, script: 'seq 1 100000' };
    server.manifest = { scripts: [...server.manifest.scripts!, other] };
    const of = (digit: string) => server.received.logs.filter(({ source }) => source === digit.repeat(32));
    await server.until('the lines of the other', () => of('4').length === 100_000);
  });

  test('a server that accepts nothing stalls no script: middle lines are left out and counted', async () => {
    const take = server.handlers.batchCreateLogs!;
    const open = Promise.withResolvers<void>();
    server.handlers.batchCreateLogs = async (request, ctx) => {
      await open.promise;
      return take(request, ctx);
    };
    // Longer than the agent waits for a script that left its output open.
    start('seq 1 400000', { logPatienceMs: 1_500 });
    await ended();
    assert.equal(server.received.timings[0]!.status, Timing_Status.OK);
    open.resolve();
    await isTold('400000');
    assertCutInTheMiddle(output(), 400_000);
    assert.equal(readFileSync(join(dir, 'whole.log'), 'utf8'), `${upTo(400_000).join('\n')}\n`);
  });

  test('reports the head and tail of script output after the server was away', async () => {
    const script = `until test -e ${dir}/go; do sleep 0.02; done; seq 1 400000; touch ${dir}/printed`;
    const take = server.handlers.batchCreateLogs!;
    const asked = Promise.withResolvers<void>();
    server.handlers.batchCreateLogs = () => {
      asked.resolve();
      // The connection is cut before the answer.
      return new Promise<never>(() => {});
    };
    start(script, { logPatienceMs: 50 });
    await server.until('starting', () => server.received.lifecycles.includes('STARTING'));
    writeFileSync(join(dir, 'go'), '');
    await asked.promise;
    server.refuse = 503;
    server.cut();
    await server.until('all is printed', () => existsSync(join(dir, 'printed')));
    await server.until('rejected dials', () => server.dials.length >= 3);
    server.handlers.batchCreateLogs = take;
    server.refuse = undefined;
    await isTold('400000');
    assertCutInTheMiddle(output(), 400_000);
  });

  test('a connection that is lost and soon restored loses no line', async () => {
    const take = server.handlers.batchCreateLogs!;
    let cuts = 0;
    server.handlers.batchCreateLogs = (request, ctx) => {
      if (cuts++ >= 3) return take(request, ctx);
      server.cut();
      return new Promise<never>(() => {});
    };
    start('seq 1 300000');
    await isTold('300000');
    assert.equal(output().join(), upTo(300_000).join());
  });

  test('runs scripts at full speed once the server accepts no more logs', async () => {
    let calls = 0;
    server.handlers.batchCreateLogs = () => {
      calls++;
      return { logLimitExceeded: true };
    };
    start('yes "a line of some length" | head -c 100000000', { logPatienceMs: 3_600_000 });
    await ended();
    assert.equal(calls, 1);
    assert.equal(server.received.timings[0]!.status, Timing_Status.OK);
  });
});
