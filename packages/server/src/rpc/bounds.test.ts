import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create, type DescField, type DescMessage, type DescService, type Message } from '@bufbuild/protobuf';
import { BoundError, boundsCheck, type MessageBounds } from '@ropewalk/wire/bounds';
import { Agent } from '@ropewalk/wire/proto/agent';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { CompletedJobSchema, ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { checkJobBounds } from '../app/job/bounds.ts';
import { AGENT_BOUNDS, DAEMON_BOUNDS } from './bounds.ts';

const STRING = 9;
const BYTES = 12;
/** Sizes beyond every bound. */
const LONG = 'x'.repeat(65 * 1024 * 1024);
const MANY = 200_000;

type Values = Record<string, unknown>;

/** A message with one part that is far too long, for each part of it that can be, at any depth outside of the `seen` types. */
function* oversized(desc: DescMessage, path: string, seen: readonly string[]): Generator<[string, Message]> {
  if (seen.includes(desc.typeName)) return;
  for (const field of desc.fields) {
    const at = `${path}.${field.name}`;
    const whole = (value: unknown): Message => {
      const message = create(desc) as Message & Values;
      if (field.oneof) (message as Values)[field.oneof.localName] = { case: field.localName, value };
      else (message as Values)[field.localName] = value;
      return message;
    };
    const wrapped = (value: unknown) =>
      whole(field.fieldKind === 'list' ? [value] : field.fieldKind === 'map' ? { key: value } : value);
    if (field.fieldKind === 'list') yield [`${at} (items)`, whole(new Array(MANY).fill(itemOf(field)))];
    if (field.fieldKind === 'map') {
      yield [`${at} (keys)`, whole({ [LONG]: '' })];
      yield [`${at} (items)`, whole(Object.fromEntries(Array.from({ length: MANY }, (_, i) => [i, itemOf(field)])))];
    }
    if ('message' in field && field.message) {
      for (const [inner, message] of oversized(field.message, at, [...seen, desc.typeName])) {
        yield [inner, wrapped(message)];
      }
    } else if ('scalar' in field && field.scalar === STRING) yield [at, wrapped(LONG)];
    else if ('scalar' in field && field.scalar === BYTES) yield [at, wrapped(Buffer.alloc(LONG.length))];
  }
}

function itemOf(field: DescField): unknown {
  if ('message' in field && field.message) return create(field.message);
  return 'scalar' in field && field.scalar === STRING ? '' : 0;
}

function* requests(services: readonly DescService[]): Generator<DescMessage> {
  for (const service of services) for (const { input } of service.methods) yield input;
}

/** The parts that a check does not bound, without those in messages that are checked elsewhere. */
function unbounded(desc: DescMessage, check: (message: Message) => void, elsewhere: readonly string[] = []): string[] {
  return [...oversized(desc, desc.name, elsewhere)].flatMap(([path, message]) => {
    try {
      check(message);
      return [path];
    } catch (err) {
      assert.ok(err instanceof BoundError || /cannot be stored/.test(String(err)), `${path}: ${err}`);
      return [];
    }
  });
}

const sets: [string, MessageBounds, DescService[]][] = [
  ['agent', AGENT_BOUNDS, [Agent]],
  ['daemon', DAEMON_BOUNDS, [ProvisionerDaemon, JobControl]],
];
for (const [name, bounds, services] of sets) {
  test(`bounds every text, list and map that an ${name} can send`, () => {
    let count = 0;
    for (const desc of requests(services)) {
      if (bounds.elsewhere?.includes(desc.typeName)) continue;
      count += 1;
      assert.deepEqual(unbounded(desc, boundsCheck(desc, bounds), bounds.elsewhere), []);
    }
    assert.ok(count > 5, 'messages were tried');
  });
}

test('bounds everything that a completed job can hold', () => {
  assert.deepEqual(
    unbounded(CompletedJobSchema, (message) => checkJobBounds(message as never)),
    [],
  );
});

test('accepts messages within the bounds', () => {
  const check = boundsCheck(CompletedJobSchema, DAEMON_BOUNDS);
  check(
    create(CompletedJobSchema, { jobId: 'x', type: { case: 'workspaceBuild', value: { state: Buffer.alloc(10) } } }),
  );
  checkJobBounds(
    create(CompletedJobSchema, {
      jobId: 'x',
      type: {
        case: 'templateImport',
        value: { startResources: [{ name: 'a', agents: [{ env: { A: 'x'.repeat(100_000) } }] }] },
      },
    }),
  );
});
