import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type DescField, type DescMessage, type Message } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { createTestTemplate, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent } from '@ropewalk/wire/proto/agent';
import {
  CheckpointRequestSchema,
  DeliverStateRequestSchema,
  FrozenRequestSchema,
  JobControl,
  KeepFrozenRequestSchema,
} from '@ropewalk/wire/proto/platform_provisioner';
import {
  CommitQuotaRequestSchema,
  CompletedJobSchema,
  FailedJobSchema,
  UpdateJobRequestSchema,
} from '@ropewalk/wire/proto/provisionerd';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, makeAgents } from './testing/agents.ts';
import { type JoinedDaemon, joinDaemon } from './testing/daemons.ts';

// Daemons and agents send every field with extreme values. The server stores them, corrects them or rejects them with a
// sentence of the server. No value reaches a column that cannot hold it.

const PSK = 'extreme test key';
const lines: string[] = [];
const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
let server: TestServer;
let template: Template;
let joined: JoinedDaemon;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK }, log });
  template = await createTestTemplate(server, 'base');
  joined = await joinDaemon(server, 'extreme', { psk: PSK });
});
after(async () => {
  await joined.session.close();
  await server.stop();
});

/** Lines that say that PostgreSQL or the driver met a value that a rule should have met. */
const met = () =>
  lines.filter((line) =>
    /internal error|database rejected|database rejects|database failed|could not write/.test(line),
  );

type Fields = Record<string, unknown>;
const oneofOf = (message: Message, { oneof }: DescField) =>
  oneof && ((message as unknown as Fields)[oneof.localName] as { case?: string; value?: unknown });

/** protobuf's numbers for scalar types. */
const [DOUBLE, FLOAT, STRING, BYTES] = [1, 2, 9, 12];
const LONG = new Set([3, 4, 6, 16, 18]);
const WHOLE = new Set([5, 7, 13, 15, 17]);

/** The extreme values of one scalar. */
function extremes(scalar: number): unknown[] {
  if (scalar === STRING) return ['a\0b', '\u{10ffff}'];
  if (scalar === BYTES) return [new Uint8Array(), new Uint8Array([0]), new Uint8Array(16).fill(0xff)];
  if (scalar === DOUBLE || scalar === FLOAT) return [Number.NaN, Number.POSITIVE_INFINITY, -1e308, 5e-324];
  if (LONG.has(scalar))
    return [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 31n, -(2n ** 31n) - 1n, 2n ** 53n].map(unsigned(scalar));
  if (WHOLE.has(scalar)) return scalar === 13 ? [0, 2 ** 32 - 1] : [-(2 ** 31), 2 ** 31 - 1];
  return [];
}
const unsigned = (scalar: number) => (value: bigint) => (scalar === 4 && value < 0n ? 2n ** 64n - 1n : value);

let made = 0;
function usual(scalar: number, name: string): unknown {
  if (scalar === STRING) {
    if (name === 'token' || name.toLowerCase().endsWith('id')) return crypto.randomUUID();
    made += 1;
    return name === 'slug' || name === 'name' ? `${name}-${made}` : name.toLowerCase();
  }
  if (scalar === BYTES) return new Uint8Array(16).fill(7);
  if (LONG.has(scalar)) return 1n;
  // the place of the only script of an agent
  if (name === 'script') return 0;
  return scalar === 8 ? true : 1;
}

/** A message with a usual value in every field. Recursion ends at depth 8. */
function filled(desc: DescMessage, depth = 0): Message {
  const message = create(desc);
  for (const field of desc.fields) set(message, field, sample(field, depth));
  return message;
}

function sample(field: DescField, depth: number): unknown {
  const one = () => {
    if ('message' in field && field.message) return depth > 8 ? undefined : filled(field.message, depth + 1);
    if ('enum' in field && field.enum) return field.enum.values.at(-1)!.number;
    return usual((field as { scalar: number }).scalar, field.localName);
  };
  if (field.fieldKind === 'list') return [one()];
  if (field.fieldKind === 'map') return { key: one() };
  return one();
}

function set(message: Message, field: DescField, value: unknown): void {
  if (value === undefined) return;
  const fields = message as unknown as Fields;
  if (!field.oneof) fields[field.localName] = value;
  else if (oneofOf(message, field)?.case === undefined)
    fields[field.oneof.localName] = { case: field.localName, value };
}

/** Changes one field after the other to each of its extremes, in place, and calls `each` with its name. */
async function mutate(
  desc: DescMessage,
  message: Message,
  each: (name: string) => Promise<void>,
  keep: (name: string) => boolean,
): Promise<void> {
  for (const field of desc.fields) {
    const name = `${desc.name}.${field.name}`;
    if (keep(name)) continue;
    const fields = message as unknown as Fields;
    const chosen = oneofOf(message, field);
    if (field.oneof && chosen?.case !== field.localName) continue;
    const read = () => (field.oneof ? chosen!.value : fields[field.localName]);
    const write = (value: unknown) => {
      if (field.oneof) fields[field.oneof.localName] = { case: field.localName, value };
      else fields[field.localName] = value;
    };
    const before = read();
    const wrap = (value: unknown) =>
      field.fieldKind === 'list' ? [value] : field.fieldKind === 'map' ? { key: value } : value;
    if ('scalar' in field && field.scalar !== undefined) {
      for (const value of extremes(field.scalar)) {
        write(wrap(value));
        await each(`${name} = ${String(value)}`);
      }
      if (field.fieldKind === 'map') {
        write({ 'a\0b': usual(field.scalar, 'value') });
        await each(`${name} with NUL in a key`);
      }
    } else if ('enum' in field && field.enum) {
      write(wrap(2 ** 31 - 1));
      await each(`${name} is unknown`);
    } else if (field.fieldKind === 'message' || field.fieldKind === 'list' || field.fieldKind === 'map') {
      const inner = (field.fieldKind === 'message' ? before : Object.values(before as object)[0]) as
        | Message
        | undefined;
      if (inner) await mutate((field as { message: DescMessage }).message, inner, each, keep);
    }
    write(before);
  }
}

async function take(): Promise<string> {
  const acquire = joined.daemon.acquireJobWithCancel();
  const job = await acquire.receive();
  acquire.cancel();
  return job!.jobId;
}

let names = 0;
async function newBuild(): Promise<void> {
  names += 1;
  const body = { name: `x${names}`, template_id: template.id };
  const { status } = await server.api<Workspace>('POST', '/users/me/workspaces', { body });
  assert.equal(status, 201);
}

const STATE = Buffer.from(JSON.stringify({ version: 4, serial: 1, lineage: 'extreme', resources: [] }));
const newJob = {
  templateImport: () => pendingVersion(server),
  workspaceBuild: newBuild,
  templateDryRun: () => server.api('POST', `/templateversions/${template.active_version_id}/dry-run`, { body: {} }),
};

for (const [kind, begin] of Object.entries(newJob)) {
  test(`the results of a job (${kind}) with extreme values`, { timeout: 240_000 }, async () => {
    const field = CompletedJobSchema.fields.find(({ localName }) => localName === kind)!;
    const desc = (field as { message: DescMessage }).message;
    const value = filled(desc) as unknown as Fields;
    if (kind === 'workspaceBuild') value['state'] = STATE;
    if (kind === 'templateImport') {
      value['plan'] = Buffer.from('{}');
      value['moduleFilesHash'] = new Uint8Array();
    }
    const failures: string[] = [];
    const send = async (what: string) => {
      await begin();
      const jobId = await take();
      const before = met().length;
      const type = { case: kind, value: value as object };
      const said = await joined.daemon
        .completeJob(create(CompletedJobSchema, { jobId, type: type as never }))
        .then(() => '', String);
      if (met().length > before) failures.push(`${what}: ${met().at(-1)}`);
      if (said !== '') await joined.daemon.failJob({ jobId, error: 'over' });
    };
    await send('usual values');
    const [job] = await server.services.sql<{ error: string | null }[]>`SELECT error FROM provisioner_jobs
      ORDER BY created_at DESC LIMIT 1`;
    assert.equal(job!.error, null, 'every part of the message reaches the database');
    // the module files are files that the daemon has uploaded
    await mutate(desc, value as unknown as Message, send, (name) => /module_files|\.state$|\.plan$/.test(name));
    assert.deepEqual(failures, []);
  });
}

test('reports of a job with extreme values', async () => {
  await newBuild();
  let jobId = await take();
  const failures: string[] = [];
  for (const [desc, call] of [
    [CommitQuotaRequestSchema, (message: never) => joined.daemon.commitQuota(message)],
    [UpdateJobRequestSchema, (message: never) => joined.daemon.updateJob(message)],
    [FailedJobSchema, (message: never) => joined.daemon.failJob(message)],
  ] as const) {
    const value = filled(desc);
    await mutate(
      desc,
      value,
      async (what) => {
        const before = met().length;
        const said = await call(Object.assign(value as object, { jobId }) as never).then(() => '', String);
        if (met().length > before) failures.push(`${what}: ${said} ${met().at(-1)}`);
        if (desc === FailedJobSchema && said === '') {
          await newBuild();
          jobId = await take();
        }
      },
      (name) => name.endsWith('.job_id'),
    );
  }
  await joined.daemon.failJob({ jobId, error: 'over' });
  assert.deepEqual(failures, []);
});

for (const [kind, begin, inputs] of [
  ['build', newBuild, [CheckpointRequestSchema, DeliverStateRequestSchema]],
  ['import', () => pendingVersion(server), [KeepFrozenRequestSchema, FrozenRequestSchema]],
] as const) {
  test(`the calls of a daemon of ours about a job (${kind}) with extreme values`, { timeout: 120_000 }, async () => {
    const { session, daemon } = await joinDaemon(server, `own-${kind}`, { psk: PSK, ours: true });
    const control = createDrpcClient(JobControl, () => session.openStream());
    await begin();
    const acquire = control.acquire();
    const { job, epoch } = (await acquire.receive())!;
    const { jobId } = job!;
    const failures: string[] = [];
    for (const desc of inputs) {
      const { localName } = JobControl.methods.find(({ input }) => input === desc)!;
      const call = control[localName as 'checkpoint'] as (message: object) => Promise<unknown>;
      const value = Object.assign(filled(desc), { jobId, epoch });
      // a part that the server can read
      if ('state' in value) value.state = STATE;
      const send = async (what: string) => {
        const before = met().length;
        const said = await call(value).then(() => '', String);
        if (met().length > before) failures.push(`${localName}, ${what}: ${said} ${met().at(-1)}`);
      };
      await mutate(desc, value, send, (name) => /\.(job_id|epoch)$/.test(name));
    }
    await daemon.failJob({ jobId, error: 'over' });
    await session.close();
    assert.deepEqual(failures, []);
  });
}

test('the calls of an agent with extreme values', { timeout: 120_000 }, async () => {
  const made = await makeAgents(server, template, 'agent');
  const agent = made.agents[0]!;
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => session.openStream()) as unknown as Record<
    string,
    (message: Message) => Promise<unknown>
  >;
  const failures: string[] = [];
  const ids = await server.services.sql<{ id: string }[]>`SELECT id FROM workspace_agent_scripts
    WHERE workspace_agent_id = ${agent.id}`;
  for (const method of Agent.methods) {
    if (method.methodKind !== 'unary' || !rpc[method.localName]) continue;
    const value = filled(method.input);
    const timing = (value as unknown as { timing?: { scriptId: Uint8Array } }).timing;
    if (timing && ids[0]) timing.scriptId = Buffer.from(ids[0].id.replaceAll('-', ''), 'hex');
    await mutate(
      method.input,
      value,
      async (what) => {
        const before = met().length;
        const said = await rpc[method.localName]!(value).then(() => '', String);
        if (met().length > before) failures.push(`${method.name}, ${what}: ${said} ${met().at(-1)}`);
      },
      () => false,
    );
  }
  await session.close();
  assert.deepEqual(failures, []);
});

test('what agents have reported in batches with extreme values is stored', async () => {
  const before = met().length;
  await server.stop();
  assert.deepEqual(met().slice(before), []);
});
