import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { TimingState } from '@ropewalk/wire/proto/provisioner';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../app/job/complete.ts';
import { loadConfig } from '../config/load.ts';
import { traceSampler, traceTargets } from './targets.ts';
import { startGrpcTraceReceiver, startTraceReceiver } from './testing.ts';

const VARIABLES = {
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=platform',
  OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
  OTEL_BSP_SCHEDULE_DELAY: '100',
};

let server: TestServer | undefined;
let receiver: Awaited<ReturnType<typeof startTraceReceiver>>;
before(async () => {
  receiver = await startTraceReceiver();
  // the library reads them
  Object.assign(process.env, VARIABLES, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
});
after(async () => {
  await server?.stop();
  for (const name of [...Object.keys(VARIABLES), 'OTEL_EXPORTER_OTLP_ENDPOINT']) delete process.env[name];
  await receiver.close();
});

test('exports each request with its log lines, in the trace of its client', async () => {
  server = await startTestServer({ env: { CODER_TRACE_ENABLE: 'true', CODER_TRACE_LOGS: 'true' } });
  const { id, token } = await insertPerson(server, 'ann');
  const traceId = 'aaaabbbbccccddddeeeeffff00001111';
  const headers = { traceparent: `00-${traceId}-1122334455667788-01` };
  assert.equal((await server.api('GET', `/users/${id}`, { token, headers })).status, 200);
  await server.services.sql`ALTER TABLE groups RENAME TO gone`;
  assert.equal((await server.api('GET', '/groups')).status, 500);
  assert.equal((await fetch(`${server.url}/api/v2/nothing?key=secret`)).status, 404);
  await server.stop();
  server = undefined;

  const { spans } = receiver;
  const mine = spans.find((span) => span.traceId === traceId && span.kind === 2)!;
  assert.equal(mine.name, 'GET /api/v2/users/{user}');
  assert.deepEqual([mine.parentId, mine.kind, mine.status], ['1122334455667788', 2, 0]);
  assert.equal(mine.attributes['http.response.status_code'], 200);
  assert.equal(mine.attributes['enduser.id'], id);
  assert.equal(mine.resource['service.name'], 'coderd');
  assert.equal(mine.resource['deployment.environment.name'], 'test');
  assert.ok(mine.events.some(({ name }) => name === 'answered a request'));
  assert.ok(receiver.headers.every((sent) => sent['x-tenant'] === 'platform'));

  const failed = spans.find((span) => span.name === 'GET /api/v2/groups')!;
  assert.equal(failed.status, 2);
  const event = failed.events.find(({ name }) => name === 'internal error')!;
  assert.equal(event.attributes['level'], 'error');
  assert.equal(event.attributes['request_id'], failed.attributes['coder.request_id']);
  assert.ok(spans.some((span) => span.name === 'GET UNKNOWN'));
  assert.doesNotMatch(JSON.stringify(spans), /secret/);

  const statements = spans.filter((span) => span.traceId === traceId && span.kind === 3);
  const lookup = statements.find(({ name }) => name === 'select users' || name === 'select api_keys')!;
  assert.equal(lookup.parentId, mine.spanId);
  assert.equal(lookup.attributes['db.system.name'], 'postgresql');
  assert.ok(
    spans.some(
      (span) => span.parentId === failed.spanId && span.name === 'select all_group_members' && span.status === 2,
    ),
  );
  const requests = new Set(spans.filter(({ kind }) => kind === 2).map(({ spanId }) => spanId));
  assert.ok(
    spans.every((span) => span.kind !== 3 || requests.has(span.parentId)),
    'no statement outside of a request',
  );
});

test('exports each job with its time in the queue and its stages', async () => {
  server = await startTestServer({ env: { CODER_TRACE_ENABLE: 'true' } });
  const template = await createTestTemplate(server, 'traced');
  await server.api<Workspace>('POST', '/users/me/workspaces', { body: { name: 'mine', template_id: template.id } });
  const own = await takeJob(server);
  await server.services
    .sql`UPDATE provisioner_jobs SET created_at = started_at - interval '1 minute' WHERE id = ${own.jobId}`;
  const at = (seconds: bigint) => ({ seconds, nanos: 0 });
  const timing = { state: TimingState.COMPLETED, source: 'x', action: 'create', resource: 'r' };
  const timings = [
    { ...timing, stage: 'apply', start: at(1_001n), end: at(1_004n) },
    { ...timing, stage: 'apply', start: at(1_000n), end: at(1_002n) },
    { ...timing, stage: 'plan', start: at(900n), end: at(901n) },
  ];
  const type = { case: 'workspaceBuild' as const, value: { timings } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  await pendingVersion(server);
  const failing = await takeJob(server);
  await failTaken(server, failing, 'out of luck');
  const spanOf = (id: string) => receiver.spans.find(({ attributes }) => attributes['coder.job.id'] === id);
  await eventually('the traces of both jobs', () => spanOf(own.jobId) && spanOf(failing.jobId));

  const build = spanOf(own.jobId)!;
  assert.equal(build.name, 'workspace_build start');
  assert.equal(build.attributes['coder.job.status'], 'succeeded');
  assert.equal(build.attributes['coder.workspace.name'], 'mine');
  assert.equal(build.attributes['coder.template.name'], 'traced');
  const parts = receiver.spans.filter(({ parentId }) => parentId === build.spanId);
  assert.deepEqual(
    parts.map(({ name, duration, traceId }) => [name, duration, traceId]),
    [
      ['queue', 60, build.traceId],
      ['plan', 1, build.traceId],
      ['apply', 4, build.traceId],
    ],
  );
  assert.deepEqual([spanOf(failing.jobId)!.name, spanOf(failing.jobId)!.status], ['template_version_import', 2]);
});

test('exports over gRPC, with the same variables', async (t) => {
  const collector = await startGrpcTraceReceiver();
  t.after(() => collector.close());
  const variables = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  Object.assign(process.env, variables);
  t.after(() => {
    delete process.env['OTEL_EXPORTER_OTLP_PROTOCOL'];
    process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
  });
  const traced = await startTestServer({ env: { CODER_TRACE_ENABLE: 'true', ...variables } });
  t.after(() => traced.stop());
  assert.equal((await traced.api('GET', '/organizations')).status, 200);
  const span = await eventually('the span of the request', () =>
    collector.spans.find(({ name }) => name === 'GET /api/v2/organizations'),
  );
  assert.equal(span.resource['service.name'], 'coderd');
  assert.ok(collector.headers.every((sent) => sent['x-tenant'] === 'platform'));
});

test('sends traces where the options say, also only to Honeycomb', () => {
  const targets = (env: NodeJS.ProcessEnv) => traceTargets(loadConfig({ env }).config, env);
  const http = { protocol: 'http/protobuf' };
  assert.deepEqual(targets({}), []);
  assert.deepEqual(targets({ CODER_TRACE_ENABLE: 'true', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }), [http]);
  const at = (endpoint: string) => targets({ CODER_TRACE_ENABLE: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
  assert.deepEqual(at('http://collector:4318'), [http]);
  assert.deepEqual(at('http://collector:4317'), [{ protocol: 'grpc' }], 'the port of gRPC, without a protocol');
  const honeycomb = { ...http, url: 'https://api.honeycomb.io/v1/traces', headers: { 'x-honeycomb-team': 'key' } };
  assert.deepEqual(targets({ CODER_TRACE_HONEYCOMB_API_KEY: 'key' }), [honeycomb]);
  assert.throws(() => targets({ CODER_TRACE_ENABLE: 'true', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }), {
    message: 'Invalid OTEL_EXPORTER_OTLP_PROTOCOL "http/json": use http/protobuf or grpc.',
  });
});

test('samples as the standard variables say', () => {
  const name = (env: NodeJS.ProcessEnv) => String(traceSampler(env));
  assert.match(name({}), /^ParentBased\{root=AlwaysOnSampler/);
  assert.match(name({ OTEL_TRACES_SAMPLER: 'always_off' }), /^AlwaysOffSampler/);
  const ratio = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' };
  assert.match(name(ratio), /^ParentBased\{root=TraceIdRatioBased\{0\.25\}/);
  assert.throws(() => name({ ...ratio, OTEL_TRACES_SAMPLER_ARG: '2' }), /OTEL_TRACES_SAMPLER_ARG: use a number/);
  assert.throws(() => name({ OTEL_TRACES_SAMPLER: 'some' }), /Invalid OTEL_TRACES_SAMPLER "some"/);
});
