import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Template, TemplateVersion } from '@ropewalk/contract';
import { createTestTemplate, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { formatLogNumbers, LOG_SEQUENCE_KEY } from '@ropewalk/wire/log-sequence';
import { Agent, Log_Level } from '@ropewalk/wire/proto/agent';
import { type FinishRequest, JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { LogLevel, type ResourceSchema } from '@ropewalk/wire/proto/provisioner';
import { CompletedJobSchema, FailedJobSchema, LogSource, ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, makeAgents } from './testing/agents.ts';
import { joinDaemon } from './testing/daemons.ts';

const PSK = 'resend test key';
let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
  template = await createTestTemplate(server, 'resend');
});
after(() => server.stop());

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
/** The numbers of the lines `from` to `to` of an origin. */
const numbers = (origin: string, from: number, to: number) => ({
  [LOG_SEQUENCE_KEY]: formatLogNumbers(range(from, to).map((sequence) => ({ origin, sequence }))),
});

test('stores a resent batch of a job once, and a batch without numbers as often as it arrives', async () => {
  const join = () => joinDaemon(server, 'resender', { psk: PSK });
  const { session, daemon } = await join();
  const call = daemon.acquireJobWithCancel();
  const version = await pendingVersion(server);
  const jobId = (await call.receive())!.jobId;
  assert.equal(jobId, version.job.id);
  const send = (origin: string | undefined, from: number, to: number, by = daemon) =>
    by.updateJob(
      {
        jobId,
        logs: range(from, to).map((i) => ({
          source: LogSource.PROVISIONER,
          level: LogLevel.INFO,
          stage: 'x',
          output: `${origin} ${i}`,
        })),
      },
      origin ? { metadata: numbers(origin, from, to) } : {},
    );
  const stored = async () =>
    (await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`)).body.map(
      ({ output }) => output,
    );
  const lines = (origin: string | undefined, from: number, to: number) => range(from, to).map((i) => `${origin} ${i}`);

  await send('a', 1, 100);
  await send('a', 1, 100);
  await send('a', 51, 150);
  assert.deepEqual(await stored(), lines('a', 1, 150));
  // the same batch at the same time on the old connection and the next, from a new origin
  const again = await join();
  await Promise.all([
    send('b', 1, 80),
    send('b', 1, 80, again.daemon),
    send('b', 1, 80),
    send('b', 1, 80, again.daemon),
  ]);
  assert.deepEqual(
    (await stored()).filter((line) => line.startsWith('b')),
    lines('b', 1, 80),
  );
  await send(undefined, 1, 3);
  await send(undefined, 1, 3);
  // numbers that do not match the lines are ignored
  await daemon.updateJob(
    { jobId, logs: [{ output: 'one' }, { output: 'two' }] },
    { metadata: { [LOG_SEQUENCE_KEY]: 'a:1+1' } },
  );
  assert.deepEqual((await stored()).slice(230), [...lines(undefined, 1, 3), ...lines(undefined, 1, 3), 'one', 'two']);
  await daemon.completeJob({ jobId, type: { case: 'templateImport', value: {} } });
  await Promise.all([session.close(), again.session.close()]);
});

test('ends a job with the rest of its log, of which it stores each line once, also if it rejects the result', async () => {
  const { session } = await joinDaemon(server, 'finisher', { psk: PSK, ours: true });
  const control = createDrpcClient(JobControl, () => session.openStream());
  const daemon = createDrpcClient(ProvisionerDaemon, () => session.openStream());
  const end = async (result: (jobId: string) => FinishRequest['result']) => {
    const call = control.acquire();
    const version = await pendingVersion(server);
    const acquired = (await call.receive())!;
    const { jobId } = acquired.job!;
    const metadata = { 'platform-job-epoch': String(acquired.epoch) };
    const logs = (from: number, to: number) => range(from, to).map((i) => ({ output: `line ${i}` }));
    await daemon.updateJob({ jobId, logs: logs(1, 4) }, { metadata: { ...metadata, ...numbers('a', 1, 4) } });
    const logNumbers = numbers('a', 3, 6)[LOG_SEQUENCE_KEY]!;
    await control.finish({ logs: logs(3, 6), logNumbers, result: result(jobId) } as FinishRequest, { metadata });
    const { body: found } = await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`);
    const { body: log } = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
    return { job: found.job, log: log.map(({ output }) => output) };
  };
  const lines = range(1, 6).map((i) => `line ${i}`);
  const importing = (resources: MessageInitShape<typeof ResourceSchema>[]) => (jobId: string) => ({
    case: 'completed' as const,
    value: create(CompletedJobSchema, {
      jobId,
      type: { case: 'templateImport', value: { startResources: resources } },
    }),
  });
  const done = await end(importing([]));
  assert.deepEqual([done.job.status, done.log], ['succeeded', lines]);
  const rejected = await end(importing([{ name: 'a', type: 'b', agents: [{ name: 'not a name' }] }]));
  assert.deepEqual([rejected.job.status, rejected.log], ['failed', lines]);
  assert.match(rejected.job.error ?? '', /Invalid agent name/);
  const failed = await end((jobId) => ({ case: 'failed', value: create(FailedJobSchema, { jobId, error: 'no' }) }));
  assert.deepEqual([failed.job.status, failed.job.error, failed.log], ['failed', 'no', lines]);
  const nothing = control.finish({ logs: [], logNumbers: '', result: { case: undefined } } as unknown as FinishRequest);
  await assert.rejects(nothing, /does not say how the job ended/);
  await session.close();
});

test('keeps the end of a cut log after its connection has ended', async () => {
  const { session, daemon } = await joinDaemon(server, 'long', { psk: PSK });
  const call = daemon.acquireJobWithCancel();
  const version = await pendingVersion(server);
  const jobId = (await call.receive())!.jobId;
  const BATCH = 1_000;
  for (let batch = 0; batch < 6; batch++) {
    const logs = range(batch * BATCH + 1, (batch + 1) * BATCH).map((i) => ({ output: `${i} `.padEnd(1_000, 'x') }));
    await daemon.updateJob({ jobId, logs }, { metadata: numbers('a', batch * BATCH + 1, (batch + 1) * BATCH) });
  }
  await session.close();
  const stored = async () =>
    (await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`)).body.map(({ output }) =>
      output.replace(/ x*$/, ''),
    );
  await eventually('the last line is stored', async () => (await stored()).at(-1) === '6000');
  const again = await joinDaemon(server, 'long', { psk: PSK });
  await again.daemon.updateJob({ jobId, logs: [{ output: 'last' }] }, { metadata: numbers('a', 6_001, 6_001) });
  await again.daemon.completeJob({ jobId, type: { case: 'templateImport', value: {} } });
  const lines = await stored();
  const cut = lines.findIndex((line) => /lines were left out here/.test(line));
  assert.equal(Number.parseInt(lines[cut]!, 10), 6_000 - cut - 1_000, 'every line is stored or counted');
  assert.deepEqual(lines.slice(cut + 1), [...range(5_001, 6_000).map(String), 'last']);
  await again.session.close();
});

test('keeps the end of a cut log that comes with the result', async () => {
  const { session } = await joinDaemon(server, 'long finisher', { psk: PSK, ours: true });
  const control = createDrpcClient(JobControl, () => session.openStream());
  const daemon = createDrpcClient(ProvisionerDaemon, () => session.openStream());
  const call = control.acquire();
  const version = await pendingVersion(server);
  const acquired = (await call.receive())!;
  const { jobId } = acquired.job!;
  const metadata = { 'platform-job-epoch': String(acquired.epoch) };
  for (let batch = 0; batch < 5; batch++) {
    const logs = range(batch * 1_000 + 1, (batch + 1) * 1_000).map((i) => ({ output: `${i} `.padEnd(1_000, 'x') }));
    const given = numbers('a', batch * 1_000 + 1, (batch + 1) * 1_000);
    await daemon.updateJob({ jobId, logs }, { metadata: { ...metadata, ...given } });
  }
  const result = { case: 'failed' as const, value: create(FailedJobSchema, { jobId, error: 'no' }) };
  const logNumbers = numbers('a', 5_001, 5_001)[LOG_SEQUENCE_KEY]!;
  await control.finish({ logs: [{ output: 'last' }], logNumbers, result } as FinishRequest, { metadata });
  const { body } = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  const lines = body.map(({ output }) => output.replace(/ x*$/, ''));
  assert.equal(lines.at(-1), 'last');
  const cut = lines.findIndex((line) => /lines were left out here/.test(line));
  assert.equal(Number.parseInt(lines[cut]!, 10), 5_001 - cut - 1_000, 'every line is stored or counted');
  await session.close();
});

test('stores a batch that an agent resends after a reconnect once', async () => {
  const { agents } = await makeAgents(server, template, 'resend');
  const agent = agents[0]!;
  const join = async () => {
    const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
    return { session, rpc: createDrpcClient(Agent, () => session.openStream()) };
  };
  const sources = ['1', '2'].map((digit) => Buffer.from(digit.repeat(32), 'hex'));
  let { session, rpc } = await join();
  const send = (life: string | undefined, source: number, from: number, to: number) =>
    rpc.batchCreateLogs(
      {
        logSourceId: sources[source]!,
        logs: range(from, to).map((i) => ({ level: Log_Level.INFO, output: `${life} ${source} ${i}` })),
      },
      life ? { metadata: numbers(life, from, to) } : {},
    );
  await Promise.all([send('first', 0, 1, 50), send('first', 0, 1, 50), send('first', 1, 1, 20)]);
  await session.close();
  ({ session, rpc } = await join());
  await send('first', 0, 1, 60);
  // the agent started over: another origin, another log
  await send('second', 0, 1, 5);
  await send('second', 0, 1, 5);
  await send(undefined, 0, 1, 2);
  await send(undefined, 0, 1, 2);
  const { body } = await server.api<{ output: string }[]>('GET', `/workspaceagents/${agent.id}/logs`);
  const count = (start: string) => body.filter(({ output }) => output.startsWith(start)).length;
  assert.equal(new Set(body.map(({ output }) => output)).size, 60 + 20 + 5 + 2);
  assert.deepEqual(['first 0', 'first 1', 'second 0', 'undefined 0'].map(count), [60, 20, 5, 4]);
  await session.close();
});
