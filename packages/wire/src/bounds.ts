/**
 * Limits the parts of a peer's message. A message as a whole is limited by its length. Each part also needs a limit,
 * since one text of a megabyte in a row breaks every list that shows the row. "Text" is a field of type string,
 * measured in UTF-16 units. "Items" are the entries of a list or a map.
 */
import type { DescField, DescMessage, Message } from '@bufbuild/protobuf';

export interface MessageBounds {
  /** The longest text. */
  text: number;
  /** The largest number of items in a list or map. */
  items: number;
  /** The longest field of bytes. */
  bytes: number;
  /** The range of each whole number. Default: that of its type. */
  numbers?: { least: number; most: number };
  /** Exceptions, keyed by `Message.field` with names as in the .proto file. For a list of texts: the longest text. */
  texts?: Readonly<Record<string, number>>;
  lists?: Readonly<Record<string, number>>;
  /** Messages that are checked elsewhere, by full name. */
  elsewhere?: readonly string[];
}

export class BoundError extends Error {
  /** The field's path, for example `Resource.agents.name`. */
  readonly field: string;
  constructor(field: string, is: string, bound: number | string) {
    super(typeof bound === 'string' ? `${field} ${is}: ${bound}` : `${field} has ${is}: at most ${bound} are accepted`);
    this.name = 'BoundError';
    this.field = field;
  }
}

type Check = (message: Message) => void;
type Values = Record<string, unknown>;

/** Returns a function that throws a BoundError if a message of this type has a part beyond the bounds. */
export function boundsCheck(desc: DescMessage, bounds: MessageBounds): Check {
  let known = checks.get(bounds);
  if (!known) {
    known = new Map();
    checks.set(bounds, known);
  }
  return checkOf(desc, bounds, known);
}

/** Built once per set of bounds and message type. */
const checks = new WeakMap<MessageBounds, Map<string, Check>>();

function checkOf(desc: DescMessage, bounds: MessageBounds, known: Map<string, Check>): Check {
  const made = known.get(desc.typeName);
  if (made) return made;
  const parts: Check[] = [];
  const check: Check = (message) => {
    for (const part of parts) part(message);
  };
  known.set(desc.typeName, check);
  for (const field of bounds.elsewhere?.includes(desc.typeName) ? [] : desc.fields) {
    const part = fieldCheck(desc, field, bounds, known);
    if (part) parts.push(part);
  }
  return check;
}

function fieldCheck(
  desc: DescMessage,
  field: DescField,
  bounds: MessageBounds,
  known: Map<string, Check>,
): Check | undefined {
  const name = `${desc.name}.${field.name}`;
  const mostText = bounds.texts?.[name] ?? bounds.text;
  const mostItems = bounds.lists?.[name] ?? bounds.items;
  const nested = 'message' in field && field.message ? checkOf(field.message, bounds, known) : undefined;
  const { numbers } = bounds;
  const one = (value: unknown) => {
    if (numbers && (typeof value === 'number' || typeof value === 'bigint')) {
      if (value < numbers.least || value > numbers.most)
        throw new BoundError(name, `is ${value}`, `it must be a number from ${numbers.least} to ${numbers.most}`);
    } else if (typeof value === 'string') {
      if (value.length > mostText) throw new BoundError(name, `${value.length} characters`, mostText);
    } else if (value instanceof Uint8Array) {
      if (value.length > bounds.bytes) throw new BoundError(name, `${value.length} bytes`, bounds.bytes);
    } else if (nested && value !== undefined) nested(value as Message);
  };
  const items = (count: number) => {
    if (count > mostItems) throw new BoundError(name, `${count} items`, mostItems);
  };
  const read = (message: Message): unknown => {
    const values = message as unknown as Values;
    if (!field.oneof) return values[field.localName];
    const chosen = values[field.oneof.localName] as { case?: string; value?: unknown } | undefined;
    return chosen?.case === field.localName ? chosen.value : undefined;
  };
  // Without a range, numbers need no check. Booleans and enums never do.
  const long = nested !== undefined || hasLength(field) || (numbers !== undefined && isWhole(field));
  if (field.fieldKind === 'list') {
    return (message) => {
      const list = read(message) as unknown[];
      items(list.length);
      if (long) for (const value of list) one(value);
    };
  }
  if (field.fieldKind === 'map') {
    return (message) => {
      const entries = Object.entries(read(message) as Values);
      items(entries.length);
      for (const [key, value] of entries) {
        one(key);
        one(value);
      }
    };
  }
  return long ? (message) => one(read(message)) : undefined;
}

/** protobuf's numbers for the scalar types string and bytes. */
const STRING = 9;
const BYTES = 12;

function hasLength(field: DescField): boolean {
  return 'scalar' in field && (field.scalar === STRING || field.scalar === BYTES);
}

/** protobuf's numbers for the scalar types of whole numbers. */
const WHOLE = new Set([3, 4, 5, 6, 7, 13, 15, 16, 17, 18]);

function isWhole(field: DescField): boolean {
  return 'scalar' in field && field.scalar !== undefined && WHOLE.has(field.scalar);
}
