import { type DescField, type DescMessage, type Message, type MessageShape, toBinary } from '@bufbuild/protobuf';

/** Copying fewer bytes costs less than a separate part. */
const LARGE = 2_048;
const NO_BYTES = new Uint8Array();
/** The wire type of bytes and messages, which are prefixed with a length. */
const LENGTH_DELIMITED = 2;
const MAX_VARINT = 10;

interface PlannedField {
  field: DescField;
  /** Absent if the field itself is bytes. */
  inner: DescMessage | undefined;
}

const plans = new WeakMap<DescMessage, readonly PlannedField[]>();

/** Finds the singular fields of a message that are bytes or contain some, at any depth. */
function fieldsWithBytes(schema: DescMessage): readonly PlannedField[] {
  let plan = plans.get(schema);
  if (!plan) {
    // For a recursive type: the caller further up handles its own fields.
    plans.set(schema, []);
    plan = schema.fields.flatMap((field): PlannedField[] => {
      // 12 is bytes.
      if (field.fieldKind === 'scalar') return field.scalar === 12 ? [{ field, inner: undefined }] : [];
      if (field.fieldKind !== 'message' || field.delimitedEncoding) return [];
      return fieldsWithBytes(field.message).length > 0 ? [{ field, inner: field.message }] : [];
    });
    plans.set(schema, plan);
  }
  return plan;
}

function valueIn(message: Message, { oneof, localName }: DescField): unknown {
  if (!oneof) return message[localName as never];
  const chosen = message[oneof.localName as never] as { case?: string; value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

/** Returns the tag and length of a field, after the bytes that precede it. */
function header(before: Uint8Array, field: DescField, length: number): Buffer {
  const out = Buffer.allocUnsafe(before.length + 2 * MAX_VARINT);
  out.set(before);
  let at = before.length;
  for (let rest of [field.number * 8 + LENGTH_DELIMITED, length]) {
    for (; rest >= 128; rest = Math.floor(rest / 128)) out[at++] = (rest % 128) | 128;
    out[at++] = rest;
  }
  return out.subarray(0, at);
}

/** Splits a message that contains large bytes into parts. Returns undefined if it contains none. */
function split(schema: DescMessage, message: Message): Uint8Array[] | undefined {
  const large: { field: DescField; parts: Uint8Array[] }[] = [];
  for (const { field, inner } of fieldsWithBytes(schema)) {
    const value = valueIn(message, field);
    if (value === undefined) continue;
    if (inner) {
      const parts = split(inner, value as Message);
      if (parts) large.push({ field, parts });
    } else if ((value as Uint8Array).length >= LARGE) {
      // A Buffer of the same memory: streams convert anything else at each write.
      const { buffer, byteOffset, byteLength } = value as Uint8Array;
      large.push({ field, parts: [Buffer.from(buffer, byteOffset, byteLength)] });
    }
  }
  if (large.length === 0) return undefined;
  const rest: Record<string, unknown> = { ...message };
  for (const { field } of large) {
    if (field.oneof) rest[field.oneof.localName] = { case: undefined };
    else rest[field.localName] = field.fieldKind === 'message' ? undefined : NO_BYTES;
  }
  let before = toBinary(schema, rest as never);
  const out: Uint8Array[] = [];
  for (const { field, parts } of large) {
    out.push(header(before, field, sizeOf(parts)), ...parts);
    before = NO_BYTES;
  }
  return out;
}

export function sizeOf(parts: readonly Uint8Array[]): number {
  return parts.reduce((size, part) => size + part.length, 0);
}

/**
 * Encodes a message in protobuf as parts to write one after the other. Large bytes (archives, states, pieces of files)
 * are separate parts and not copied, so they must not change until they are written. Their fields follow the others, an
 * order that every decoder accepts.
 */
export function encodeMessage<S extends DescMessage>(schema: S, message: MessageShape<S>): Uint8Array[] {
  return split(schema, message) ?? [toBinary(schema, message)];
}
