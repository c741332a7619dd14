// own process: measures its memory

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  equals,
  fromBinary,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { file_agent } from '@ropewalk/wire/proto/agent';
import { file_platform_provisioner } from '@ropewalk/wire/proto/platform_provisioner';
import { file_provisioner } from '@ropewalk/wire/proto/provisioner';
import { file_provisionerd } from '@ropewalk/wire/proto/provisionerd';
import { seededRandom } from '../testing/sockets.ts';
import { encodeMessage } from './encode-message.ts';

// Every message that a daemon or an agent may send: encoding and decoding returns the same message whatever it
// contains, and damaged bytes soon give an error or a message. A failure's message contains the seed.

type Random = (below: number) => number;

const messages: DescMessage[] = [file_provisionerd, file_provisioner, file_platform_provisioner, file_agent].flatMap(
  (file) => file.messages.flatMap(withNested),
);

function withNested(message: DescMessage): DescMessage[] {
  return [message, ...message.nestedMessages.flatMap(withNested)];
}

const TEXTS = ['', 'a', 'ä€😀', 'x'.repeat(130), '\0', 'true'];
const BIG = 5_000;

function scalar(type: ScalarType, random: Random, large: boolean): unknown {
  switch (type) {
    case ScalarType.BYTES:
      return Uint8Array.from({ length: large && random(2) ? BIG + random(70_000) : random(40) }, () => random(256));
    case ScalarType.STRING:
      return TEXTS[random(TEXTS.length)];
    case ScalarType.BOOL:
      return random(2) === 1;
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return BigInt(random(1_000_000_000)) * (random(2) ? -1_000_000_000n : 1n);
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return BigInt(random(1_000_000_000)) * 1_000_000_000n;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return random(1_000) / 8;
    default:
      return random(1_000_000);
  }
}

const enumValue = ({ values }: DescEnum, random: Random) => values[random(values.length)]!.number;

function single(field: DescField, random: Random, depth: number): unknown {
  if (field.scalar !== undefined) return scalar(field.scalar, random, depth < 3);
  if (field.enum) return enumValue(field.enum, random);
  return anyMessage(field.message!, random, depth + 1);
}

function valueFor(field: DescField, random: Random, depth: number): unknown {
  if (field.fieldKind === 'list') return Array.from({ length: random(3) }, () => single(field, random, depth + 1));
  if (field.fieldKind === 'map') {
    const key = (n: number) => (field.mapKey === ScalarType.STRING ? `k${n}` : String(n));
    return Object.fromEntries(Array.from({ length: random(3) }, (_, n) => [key(n), single(field, random, depth + 1)]));
  }
  return single(field, random, depth);
}

function anyMessage(schema: DescMessage, random: Random, depth = 0): ReturnType<typeof create> {
  const init: Record<string, unknown> = {};
  for (const member of schema.members) {
    if (random(3) === 0 || depth > 4) continue;
    if (member.kind === 'field') init[member.localName] = valueFor(member, random, depth);
    else {
      const field = member.fields[random(member.fields.length)]!;
      init[member.localName] = { case: field.localName, value: valueFor(field, random, depth) };
    }
  }
  return create(schema, init as never);
}

test('every message decodes to what was encoded, with large bytes at any depth', () => {
  assert.ok(messages.length > 100, `found only ${messages.length} messages`);
  let divided = 0;
  for (const schema of messages) {
    for (let seed = 1; seed <= 12; seed++) {
      const message = anyMessage(schema, seededRandom(seed));
      const before = toBinary(schema, message);
      const parts = encodeMessage(schema, message);
      if (parts.length > 1) divided++;
      const back = fromBinary(schema, Buffer.concat(parts));
      assert.ok(equals(schema, back, message), `${schema.typeName}, seed ${seed}`);
      assert.deepEqual(toBinary(schema, message), before, `${schema.typeName}, seed ${seed}: the message was changed`);
    }
  }
  assert.ok(divided > 50, `only ${divided} messages had large bytes`);
});

test('keeps an unknown field with large bytes', () => {
  const schema = messages.find(({ typeName }) => typeName === 'provisionerd.AcquiredJob')!;
  const unknown = Buffer.from([0xfa, 0x3f, 2, 7, 7]);
  const archive = Buffer.concat([Buffer.from([0x2a, 0x88, 0x27]), Buffer.alloc(BIG, 1)]);
  const message = fromBinary(schema, Buffer.concat([unknown, archive]));
  const back = fromBinary(schema, Buffer.concat(encodeMessage(schema, message)));
  assert.ok(equals(schema, back, message));
  assert.equal(back.$unknown?.length, 1);
});

test('damaged messages and arbitrary bytes soon give an error or a message, in little memory', () => {
  let failures = 0;
  let tries = 0;
  const before = process.memoryUsage().arrayBuffers;
  const started = performance.now();
  for (const schema of messages) {
    for (let seed = 1; seed <= 25; seed++) {
      const random = seededRandom(seed * 7);
      let input = Buffer.from(random(3) ? toBinary(schema, anyMessage(schema, random, 3)) : bytes(random, 300));
      for (let flips = random(6); flips > 0 && input.length > 0; flips--)
        input[random(input.length)]! ^= 1 << random(8);
      if (random(3) === 0) input = input.subarray(0, random(input.length + 1));
      tries++;
      try {
        fromBinary(schema, input);
      } catch (err) {
        assert.ok(err instanceof Error, `${schema.typeName}, seed ${seed}: ${String(err)}`);
        failures++;
      }
    }
  }
  assert.ok(failures > tries / 10, `only ${failures} of ${tries} inputs were rejected`);
  assert.ok(performance.now() - started < 10_000);
  assert.ok(process.memoryUsage().arrayBuffers - before < 64 * 1024 * 1024);
});

test('rejects nested groups up to the largest message', () => {
  const schema = messages.find(({ typeName }) => typeName === 'provisionerd.UpdateJobRequest')!;
  // Field 100 as the start of a group.
  const open = Buffer.from([0xa3, 0x06]);
  assert.throws(() => fromBinary(schema, Buffer.alloc(4 * 1024 * 1024, open)), Error);
});

function bytes(random: Random, length: number): Uint8Array {
  return Uint8Array.from({ length: random(length) }, () => random(256));
}
