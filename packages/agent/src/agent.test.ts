import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { AppError, silentLogger, systemClock } from '@ropewalk/kit';
import { AppHealth, Log_Level, Timing_Stage, Timing_Status, WorkspaceApp_Health } from '@ropewalk/wire/proto/agent';
import { type RunningAgent, runAgent } from './agent.ts';
import { deriveHostKey } from './host-key.ts';
import { type AgentOptions, agentOptionsFromEnv } from './options.ts';
import { startTestServer, type TestServer, TOKEN } from './testing/server.ts';
import { run, sshClient } from './testing/ssh-client.ts';

const id = (digit: string) => Buffer.from(digit.repeat(32), 'hex');
const alive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const seconds = (count: number) => ({ seconds: BigInt(count), nanos: 0 });
/** The server puts counts of seconds of metadata into this field. */
const asSeconds = (count: number) => ({ seconds: 0n, nanos: count });

describe('the agent', () => {
  let server: TestServer;
  let agent: RunningAgent | undefined;
  let dir: string;
  beforeEach(async () => {
    server = await startTestServer();
    dir = mkdtempSync(join(tmpdir(), 'agent-test-'));
  });
  afterEach(async () => {
    await agent?.stop();
    agent = undefined;
    await server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const start = (more: Partial<AgentOptions> = {}) => {
    agent = runAgent({
      url: server.url,
      token: TOKEN,
      version: 'v1.2.3',
      log: silentLogger,
      scriptDataDir: dir,
      logDir: dir,
      reconnectCapMs: 200,
      ...more,
    });
    return agent;
  };
  const lifecycles = () => server.received.lifecycles;
  /**
   * Reads the pid from a script that prints `pid N`. Logs travel separately and can arrive after the script's timing.
   */
  const reportedPid = async () => {
    const output = () => server.received.logs.find(({ output }) => output.startsWith('pid '))?.output.slice(4);
    await server.until('a pid in the logs', () => output() !== undefined);
    return Number(output());
  };

  test('redials an unreachable server at least every 2 s, with a different wait each time', async (t) => {
    const waits: number[] = [];
    t.mock.method(systemClock, 'sleep', async (ms: number) => {
      waits.push(ms);
      await new Promise((resolve) => setImmediate(resolve));
    });
    server.refuse = 503;
    const where = { url: server.url, token: TOKEN, scriptDataDir: dir, logDir: dir };
    agent = runAgent({ ...where, version: 'v1.2.3', log: silentLogger });
    await server.until('forty tries', () => waits.length >= 40);
    assert.ok(Math.max(...waits) <= 2_000, `${Math.max(...waits)}`);
    const late = waits.slice(10, 40);
    assert.ok(Math.max(...late) - Math.min(...late) > 500, 'many agents spread their attempts');
  });

  test('sends its token, capability and host key, reports its start, and reports its end when stopped', async () => {
    server.manifest = {
      directory: '$HOME',
      scripts: [
        {
          id: id('a'),
          logSourceId: id('b'),
          runOnStart: true,
          script: 'echo "in $CODER_SCRIPT_DATA_DIR"; printf "\\303\\050\\r\\n"; echo bad >&2; printf unended',
        },
        { id: id('c'), logSourceId: id('d'), runOnStop: true, script: 'echo bye' },
      ],
    };
    const running = start({ env: { ...process.env, HOME: dir } });
    await server.until('ready', () => lifecycles().includes('READY'));
    assert.equal(server.dials[0]!.cookie, `coder_session_token=${TOKEN}`);
    assert.equal(
      server.dials[0]!['platform-capabilities'],
      'tunnel/1, resume/1, tailnet/1, direct/1, proxy/1, proxy-path/1',
    );
    const key = deriveHostKey(TOKEN).publicBlob.toString('base64');
    assert.equal(server.dials[0]!['platform-ssh-host-key'], key);
    assert.equal(server.received.startups[0]!.version, 'v1.2.3');
    assert.equal(server.received.startups[0]!.expandedDirectory, dir);
    await server.until('the timing', () => server.received.timings.length === 1);
    assert.equal(server.received.timings[0]!.stage, Timing_Stage.START);
    assert.equal(server.received.timings[0]!.status, Timing_Status.OK);
    const source = 'b'.repeat(32);
    await server.until('the logs', () => server.received.logs.length === 4);
    const uuid = source.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    const lines = server.received.logs.filter((line) => line.source === source);
    const out = lines.filter(({ level }) => level === Log_Level.INFO).map(({ output }) => output);
    assert.deepEqual(out, [`in ${dir}/coder-script-data/${uuid}`, '\uFFFD(', 'unended']);
    assert.deepEqual(
      lines.filter(({ level }) => level === Log_Level.ERROR).map(({ output }) => output),
      ['bad'],
    );
    assert.match(readFileSync(join(dir, `coder-script-${uuid}.log`), 'utf8'), /unended/);
    await running.stop();
    assert.deepEqual(lifecycles(), ['STARTING', 'READY', 'SHUTTING_DOWN', 'OFF']);
    assert.ok(server.received.logs.some(({ output }) => output === 'bye'));
    assert.equal(server.received.timings.at(-1)!.stage, Timing_Stage.STOP);
  });

  test('reports a missing directory once, and only if no start script created it', async () => {
    const made = join(dir, 'made');
    const script = `mkdir ${made}`;
    server.manifest = {
      directory: made,
      scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script }],
    };
    const first = start();
    await server.until('ready', () => lifecycles().includes('READY'));
    await first.stop();
    assert.equal(server.received.logs.length, 0);
    server.manifest = { directory: join(dir, 'absent') };
    start({ env: { ...process.env, HOME: dir } });
    await server.until('the log line about it', () => server.received.logs.length > 0);
    const { source, level, output } = server.received.logs.at(-1)!;
    assert.deepEqual([source, level], ['0'.repeat(32), Log_Level.WARN]);
    assert.ok(output.includes(`${dir}/absent`) && output.includes(`Sessions start in "${dir}".`), output);
    server.cut();
    await server.until('the agent is back', () => server.received.startups.length === 3);
    const client = await sshClient(await server.tunnel());
    assert.equal((await run(client, 'pwd')).stdout, `${dir}\n`);
    client.end();
    await agent!.stop();
    assert.equal(server.received.logs.length, 1);
  });

  test('kills a script that exceeds its timeout with everything it started, and reports a failing script', async () => {
    server.manifest = {
      scripts: [
        { id: id('1'), logSourceId: id('2'), runOnStart: true, script: '#!/usr/bin/env bash\n[[ -n x ]] && exit 3' },
        {
          id: id('3'),
          logSourceId: id('4'),
          runOnStart: true,
          // long enough that the script prints on a slow machine
          timeout: seconds(4),
          script: 'sleep 300 & echo "pid $!"; wait',
        },
      ],
    };
    start();
    await server.until('the verdict', () => lifecycles().length === 2);
    assert.deepEqual(lifecycles(), ['STARTING', 'START_TIMEOUT']);
    await server.until('timings', () => server.received.timings.length === 2);
    const timings = server.received.timings.toSorted((a, b) => a.exitCode - b.exitCode);
    const verdicts = timings.map(({ exitCode, status }) => [exitCode, status]);
    assert.deepEqual(verdicts, [
      [3, Timing_Status.EXIT_FAILURE],
      [255, Timing_Status.TIMED_OUT],
    ]);
    const measured = () =>
      (server.received.stats.at(-1)?.metrics ?? []).map(({ name, value, labels }) => [name, labels[0]?.value, value]);
    await server.until('the metrics', () => measured().length === 2);
    const [scripts, startUp] = measured() as [unknown[], [string, string, number]];
    assert.deepEqual(scripts, ['agent_scripts_executed_total', 'false', 2]);
    assert.deepEqual(startUp.slice(0, 2), ['coderd_agentstats_startup_script_seconds', 'false']);
    assert.ok(startUp[2] >= 4 && startUp[2] < 60, String(startUp[2]));
    const pid = await reportedPid();
    await server.until('its child is gone', () => !alive(pid));
  });

  test('counts a script as done even if it left something in the background', async () => {
    const script = 'sleep 300 & echo "pid $!"';
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script }] };
    const running = start();
    await server.until('ready', () => lifecycles().includes('READY'));
    await server.until('the timing', () => server.received.timings.length === 1);
    assert.equal(server.received.timings[0]!.status, Timing_Status.PIPES_LEFT_OPEN);
    const pid = await reportedPid();
    assert.ok(process.kill(pid, 0));
    await running.stop();
    await server.until('it is gone', () => !alive(pid));
  });

  test('accepts output of any size', async () => {
    const script = 'head -c 30000000 /dev/zero | tr "\\0" x; echo; yes line | head -n 500000; echo last';
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script }] };
    start();
    await server.until('ready', () => lifecycles().includes('READY'));
    await server.until('the timing', () => server.received.timings.length === 1);
    assert.equal(server.received.timings[0]!.status, Timing_Status.OK);
    await server.until('the end of the logs', () => server.received.logs.some(({ output }) => output === 'last'));
    assert.equal(server.received.logs.filter(({ output }) => output === 'line').length, 500_000);
  });

  test('after a cut connection, reports what it had not reported and runs no script again', async () => {
    const script = `echo ran >> ${dir}/runs; until test -e ${dir}/go; do sleep 0.02; done`;
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script }] };
    const running = start();
    await server.until('starting', () => lifecycles().includes('STARTING'));
    server.refuse = 401;
    server.cut();
    await server.until('rejected dials', () => server.dials.length >= 3);
    writeFileSync(join(dir, 'go'), '');
    server.refuse = undefined;
    await server.until('ready', () => lifecycles().includes('READY'));
    assert.deepEqual(lifecycles(), ['STARTING', 'READY']);
    assert.equal(readFileSync(join(dir, 'runs'), 'utf8'), 'ran\n');
    assert.equal(server.received.startups.length, 2);
    const client = await sshClient(await server.tunnel());
    assert.equal((await run(client, 'echo back')).stdout, 'back\n');
    client.end();
    await running.stop();
  });

  test('connects to another server when it is asked to, and meanwhile serves the tunnels that it has', async () => {
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script: 'true' }] };
    start({ reconnectCapMs: 30_000 });
    await server.until('ready', () => lifecycles().includes('READY'));
    const old = await sshClient(await server.tunnel());
    const rejected = server.dials.length + 12;
    const from = performance.now();
    server.refuse = 503;
    (await server.tunnel('move')).destroy();
    await server.until('tries in quick succession', () => server.dials.length >= rejected);
    assert.ok(performance.now() - from < 5_000);
    assert.equal((await run(old, 'echo still here')).stdout, 'still here\n');
    server.refuse = undefined;
    await server.until('another connection', () => server.received.startups.length === 2);
    const moved = await sshClient(await server.tunnel());
    for (const client of [moved, old]) {
      assert.equal((await run(client, 'echo both')).stdout, 'both\n');
      client.end();
    }
    assert.deepEqual(lifecycles(), ['STARTING', 'READY']);
  });

  test('a failing call costs only the connection', async () => {
    let failures = 2;
    const updateLifecycle = server.handlers.updateLifecycle!;
    server.handlers.updateLifecycle = (request, ctx) => {
      if (failures-- > 0) throw new AppError('internal', 'try again');
      return updateLifecycle(request, ctx);
    };
    start();
    await server.until('ready', () => lifecycles().includes('READY'));
    assert.deepEqual(lifecycles(), ['STARTING', 'READY']);
  });

  test('reports metadata, app health and resources', async () => {
    let status = 500;
    const app = createServer((_req, res) => res.writeHead(status).end());
    app.listen(0, '127.0.0.1');
    await once(app, 'listening');
    const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`;
    server.manifest = {
      metadata: [
        { key: 'good', script: 'echo warning >&2; echo $((6*7))', interval: asSeconds(1), timeout: asSeconds(60) },
        { key: 'bad', script: 'echo why >&2; exit 2', interval: asSeconds(0), timeout: asSeconds(60) },
        { key: 'slow', script: 'sleep 60', interval: asSeconds(1) },
      ],
      apps: [
        {
          id: id('5'),
          slug: 'app',
          healthcheck: { url, interval: { seconds: 0n, nanos: 100_000_000 }, threshold: 1 },
          health: WorkspaceApp_Health.INITIALIZING,
        },
      ],
    };
    start();
    const results = (key: string) =>
      server.received.metadata.filter((item) => item.key === key).map((item) => item.result!);
    await server.until('metadata', () => results('good').length >= 2 && results('slow').length >= 1);
    assert.equal(results('good')[0]!.value, '42');
    assert.equal(results('bad').length, 1);
    assert.match(results('bad')[0]!.error, /2.*why/);
    assert.match(results('slow')[0]!.error, /timed out/);
    const health = () => server.received.healths.at(-1)?.updates[0]?.health;
    await server.until('unhealthy', () => health() === AppHealth.UNHEALTHY);
    status = 404;
    await server.until('healthy', () => health() === AppHealth.HEALTHY);
    await server.until('usage', () => server.received.usage.length > 0);
    const [point] = server.received.usage[0]!;
    assert.equal(server.received.usage[0]!.length, 2);
    assert.ok(point!.memory!.used > 0n && point!.memory!.used < point!.memory!.total);
    assert.ok(point!.volumes[0]!.used > 0n && point!.volumes[0]!.used <= point!.volumes[0]!.total);
    app.close();
    app.closeAllConnections();
  });

  test('reports metadata once, then seldom, but immediately while somebody watches', async () => {
    const script = `echo ran >> ${dir}/runs; date +%s%N`;
    server.manifest = { metadata: [{ key: 'clock', script, interval: asSeconds(1), timeout: asSeconds(60) }] };
    start();
    await server.until('the first value', () => server.received.metadata.length === 1);
    const runs = () => readFileSync(join(dir, 'runs'), 'utf8').length / 4;
    await server.until('a second collection', () => runs() >= 3);
    assert.equal(server.received.metadata.length, 1);
    const watch = await server.tunnel('watch');
    await server.until('values while it is watched', () => server.received.metadata.length >= 3);
    watch.destroy();
    await server.until('a run', () => runs() >= 6);
    const before = server.received.metadata.length;
    const at = runs();
    await server.until('two more runs', () => runs() >= at + 2);
    assert.ok(server.received.metadata.length <= before + 1);
  });

  test('starts over when this server or an upstream server announces a new owner', async () => {
    const script = `echo "for $CODER_WORKSPACE_OWNER_NAME" >> ${dir}/runs; sleep 300 & echo "pid $!"`;
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script }] };
    const running = start();
    await server.until('ready', () => lifecycles().includes('READY'));
    const pid = await reportedPid();
    server.manifest = { ...server.manifest, ownerUsername: 'ben' };
    await server.tunnel('reinit', { reason: 'prebuild_claimed' });
    await server.until('ready again', () => lifecycles().join() === 'STARTING,READY,STARTING,READY');
    await server.until('processes of the previous owner are gone', () => !alive(pid));
    assert.equal(readFileSync(join(dir, 'runs'), 'utf8'), 'for ann\nfor ben\n');
    const client = await sshClient(await server.tunnel());
    assert.equal((await run(client, 'echo $CODER_WORKSPACE_OWNER_NAME')).stdout, 'ben\n');
    client.end();
    await running.stop();
    await running.done;

    await server.close();
    server = await startTestServer('');
    start();
    await server.until('the request for the event', () => server.reinits.size === 1 && lifecycles().includes('READY'));
    for (const stream of server.reinits) {
      stream.end('event: data\ndata: {"WorkspaceID":"x","reason":"prebuild_claimed"}\n\n');
    }
    await server.until('ready again', () => lifecycles().join() === 'STARTING,READY,STARTING,READY');
  });

  test('starts over after a claim that it missed, and not after any other lost connection', async () => {
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), runOnStart: true, script: 'true' }] };
    start();
    await server.until('ready', () => lifecycles().includes('READY'));
    server.cut();
    await server.until('another connection', () => server.received.startups.length === 2);
    assert.equal(lifecycles().join(), 'STARTING,READY');
    server.manifest = { ...server.manifest, agentId: Buffer.alloc(16, 7), ownerUsername: 'ben' };
    server.cut();
    await server.until('ready again', () => lifecycles().join() === 'STARTING,READY,STARTING,READY');
  });

  test('skips a scheduled run while the previous one is running', async () => {
    const script = 'echo begins; sleep 60';
    server.manifest = { scripts: [{ id: id('1'), logSourceId: id('2'), cron: '* * * * * *', script }] };
    start();
    const lines = () => server.received.logs.map(({ output }) => output);
    await server.until('a skipped run', () => lines().some((line) => /Skipped the scheduled run/.test(line)));
    assert.equal(lines().filter((line) => line === 'begins').length, 1);
  });

  test('works with an upstream server, which offers no tunnels', async () => {
    await server.close();
    server = await startTestServer('');
    start();
    await server.until('ready', () => lifecycles().includes('READY'));
    await assert.rejects(server.tunnel());
  });
});

test("reads upstream's environment variables and names bad ones in its errors", async () => {
  const headers = agentOptionsFromEnv({
    CODER_AGENT_URL: 'http://x',
    CODER_AGENT_TOKEN: 't',
    CODER_AGENT_HEADER: 'X-A=1,X-B=a=b',
    CODER_AGENT_HEADER_COMMAND: 'echo X-C=$((1+2))',
  }).headers!;
  assert.deepEqual(await headers(), { 'X-A': '1', 'X-B': 'a=b', 'X-C': '3' });
  const given = agentOptionsFromEnv({ CODER_AGENT_URL: 'http://x', CODER_AGENT_TOKEN: 't', CODER_AGENT_LOG_DIR: '/l' });
  assert.equal(given.logDir, '/l');
  assert.equal(given.sshMaxTimeoutMs, 72 * 3_600_000);
  const byCloud = agentOptionsFromEnv({
    CODER_AGENT_URL: 'http://x',
    CODER_AGENT_AUTH: 'aws-instance-identity',
    CODER_AGENT_NAME: 'second',
  });
  assert.deepEqual([byCloud.auth, byCloud.name], ['aws-instance-identity', 'second']);
  const wrong = { CODER_AGENT_URL: 'http://x', CODER_AGENT_AUTH: 'moon-instance-identity' };
  assert.throws(() => agentOptionsFromEnv(wrong), /"moon-instance-identity" is not supported/);
  assert.throws(() => agentOptionsFromEnv({ CODER_AGENT_TOKEN: 't' }), /CODER_AGENT_URL/);
  assert.throws(() => agentOptionsFromEnv({ CODER_AGENT_URL: 'http://x' }), /CODER_AGENT_TOKEN/);
});
