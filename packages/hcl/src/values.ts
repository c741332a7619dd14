/** A value that is known only later, in a Terraform run. */
export class Unknown {
  readonly kind = 'unknown';
}
export const UNKNOWN = new Unknown();

/** The limit of a value with all its content: shared parts count as often as they appear. */
const MAX_ELEMENTS = 100_000;
const MAX_CHARACTERS = 4 * 1024 * 1024;
const MAX_LEVELS = 500;

/** The total content of a collection, so that nothing needs to walk it. */
interface Extent {
  elements: number;
  /** The UTF-16 units of text, including keys. */
  characters: number;
  levels: number;
  known: boolean;
}

function extentOf(items: Iterable<Value>, keys: Iterable<string> = []): Extent {
  let [elements, characters, levels, known] = [0, 0, 0, true];
  for (const item of items) {
    elements++;
    if (typeof item === 'string') characters += item.length;
    else if (item instanceof Unknown) known = false;
    else if (item instanceof Seq || item instanceof Dict) {
      elements += item.extent.elements;
      characters += item.extent.characters;
      if (item.extent.levels > levels) levels = item.extent.levels;
      if (!item.extent.known) known = false;
    }
  }
  for (const key of keys) characters += key.length;
  if (elements > MAX_ELEMENTS) throw new EvaluationError(`A value holds more than ${count(MAX_ELEMENTS)} elements.`);
  if (characters > MAX_CHARACTERS)
    throw new EvaluationError(`A value holds more than ${count(MAX_CHARACTERS)} characters of text.`);
  if (levels >= MAX_LEVELS) throw new EvaluationError(`A value is nested deeper than ${MAX_LEVELS} levels.`);
  return { elements, characters, levels: levels + 1, known };
}

/** Formats a limit for messages. */
export const count = (n: number): string => n.toLocaleString('en');

/**
 * An ordered collection. A set holds its elements once, in Terraform's order. Throws EvaluationError beyond the limits
 * of one value.
 */
export class Seq {
  readonly kind: 'tuple' | 'list' | 'set';
  readonly items: readonly Value[];
  readonly extent: Extent;
  constructor(kind: 'tuple' | 'list' | 'set', items: readonly Value[]) {
    this.kind = kind;
    this.items = items;
    this.extent = extentOf(items);
  }
}

/** Values by key, always ordered by key. Throws EvaluationError beyond the limits of one value. */
export class Dict {
  readonly kind: 'object' | 'map';
  readonly entries: ReadonlyMap<string, Value>;
  readonly extent: Extent;
  constructor(kind: 'object' | 'map', entries: Iterable<readonly [string, Value]>) {
    this.kind = kind;
    this.entries = new Map([...new Map(entries)].sort(([a], [b]) => compareText(a, b)));
    this.extent = extentOf(this.entries.values(), this.entries.keys());
  }
}

/** A value of Terraform's language. Never `undefined`: an unknown value is `UNKNOWN`. */
export type Value = null | boolean | number | string | Unknown | Seq | Dict;

/** A failed evaluation. The expression caused it, and the message is for its author. */
export class EvaluationError extends Error {}

export const tuple = (items: readonly Value[]): Seq => new Seq('tuple', items);
export const list = (items: readonly Value[]): Seq => new Seq('list', unifyAll(items));
export const object = (entries: Iterable<readonly [string, Value]>): Dict => new Dict('object', entries);

export function map(entries: Iterable<readonly [string, Value]>): Dict {
  const pairs = [...entries];
  const values = unifyAll(pairs.map(([, value]) => value));
  return new Dict(
    'map',
    pairs.map(([key], i) => [key, values[i]!]),
  );
}

export function set(items: readonly Value[]): Seq {
  const seen = new Map<string, Value>();
  for (const item of unifyAll(items)) seen.set(canonical(item), item);
  return new Seq('set', [...seen.values()].sort(compareForSet));
}

/** Compares by Unicode code points, as Terraform orders keys and sets of strings. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    // Surrogates represent code points above every other unit.
    if (x !== y) return (x >= 0xd800 && x <= 0xdfff ? x + 0x10000 : x) - (y >= 0xd800 && y <= 0xdfff ? y + 0x10000 : y);
  }
  return a.length - b.length;
}

function compareForSet(a: Value, b: Value): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b);
  return compareText(canonical(a), canonical(b));
}

/**
 * Equal values have equal canonical text. Lists and tuples differ only by their elements here, as do maps and objects.
 */
export function canonical(value: Value): string {
  if (value instanceof Unknown) return '?';
  if (value instanceof Seq) return `${value.kind === 'set' ? 's' : ''}[${value.items.map(canonical).join(',')}]`;
  if (value instanceof Dict)
    return `{${[...value.entries].map(([k, v]) => `${JSON.stringify(k)}:${canonical(v)}`).join(',')}}`;
  return JSON.stringify(value);
}

export function whollyKnown(value: Value): boolean {
  if (value instanceof Seq || value instanceof Dict) return value.extent.known;
  return !(value instanceof Unknown);
}

/** The steps of reading a whole value: one for each element and for each 64 characters. */
export function readingSteps(value: Value): number {
  if (typeof value === 'string') return 1 + Math.floor(value.length / 64);
  if (value instanceof Seq || value instanceof Dict)
    return 1 + value.extent.elements + Math.floor(value.extent.characters / 64);
  return 1;
}

/** The name of a value's type for messages. */
export function typeName(value: Value): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return 'bool';
  if (value instanceof Unknown || value instanceof Seq || value instanceof Dict) return value.kind;
  return typeof value;
}

/** Formats a number: integers in full, others without the noise of binary fractions. */
export function formatNumber(n: number): string {
  if (!Number.isFinite(n)) return n > 0 ? 'Inf' : '-Inf';
  if (Number.isInteger(n)) return BigInt(n).toString();
  // Terraform calculates with 512 bits: 0.1 + 0.2 is 0.3 there. A double is exact to 15 digits.
  const short = Number(n.toPrecision(15));
  const text = String(short);
  if (!text.includes('e')) return text;
  return short.toFixed(100).replace(/0+$/, '');
}

/** Converts a primitive to a string. Undefined if the value has no text. */
export function primitiveText(value: Value): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return formatNumber(value);
  if (typeof value === 'boolean') return String(value);
  return undefined;
}

/** Converts a primitive to a string. `what` names it in the error. @throws EvaluationError for any other value. */
export function toText(value: Value, what = 'value'): string {
  const text = primitiveText(value);
  if (text === undefined) throw new EvaluationError(`A string is needed for the ${what}, not ${typeName(value)}.`);
  return text;
}

/** More than the digits of any number here. */
const MAX_DIGITS = 10_000;

export function toNumber(value: Value, what = 'value'): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'string' && value.length > MAX_DIGITS)
    throw new EvaluationError(`The text of a number has more than ${count(MAX_DIGITS)} characters.`);
  if (typeof value === 'string' && /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/.test(value)) return Number(value);
  throw new EvaluationError(`A number is needed for the ${what}, not ${typeName(value)}.`);
}

export function toBool(value: Value, what = 'value'): boolean {
  if (typeof value === 'boolean') return value;
  if (value === 'true' || value === '1') return true;
  if (value === 'false' || value === '0') return false;
  throw new EvaluationError(`A bool is needed for the ${what}, not ${typeName(value)}.`);
}

type Shape = 'string' | 'number' | 'bool';

function shapeOf(value: Value): Shape | undefined {
  const name = typeName(value);
  return name === 'string' || name === 'number' || name === 'bool' ? name : undefined;
}

/**
 * Converts values to one type, as a list's elements or the two sides of a conditional require: mixed primitives become
 * strings.
 */
export function unifyAll(values: readonly Value[]): Value[] {
  const shapes = new Set<Shape>();
  let seqs = 0;
  let dicts = 0;
  for (const value of values) {
    const shape = shapeOf(value);
    if (shape) shapes.add(shape);
    else if (value instanceof Seq) seqs++;
    else if (value instanceof Dict) dicts++;
  }
  if (Number(shapes.size > 0) + Number(seqs > 0) + Number(dicts > 0) > 1)
    throw new EvaluationError('All elements must have the same type.');
  return shapes.size < 2 ? [...values] : values.map((value) => primitiveText(value) ?? value);
}

/** Equality as in `==`: same type and same content. Text never equals a number. */
export function equal(a: Value, b: Value): boolean | Unknown {
  if (!whollyKnown(a) || !whollyKnown(b)) return UNKNOWN;
  return canonical(a) === canonical(b);
}

/** Converts a value to plain data, as in JSON. */
export function toJson(value: Value): unknown {
  if (value instanceof Unknown) throw new EvaluationError('The value is not known yet.');
  if (value instanceof Seq) return value.items.map(toJson);
  if (value instanceof Dict) {
    // A property named __proto__ is ordinary data: define it, never assign it.
    const out: Record<string, unknown> = {};
    for (const [key, item] of value.entries)
      Object.defineProperty(out, key, { value: toJson(item), enumerable: true, configurable: true, writable: true });
    return out;
  }
  return value;
}

/**
 * Converts plain data to a value: arrays become tuples, records become objects. Throws EvaluationError beyond 500
 * levels.
 */
export function fromJson(data: unknown, depth = 0): Value {
  if (depth > MAX_LEVELS) throw new EvaluationError(`The data is nested deeper than ${MAX_LEVELS} levels.`);
  if (data === null || typeof data === 'boolean' || typeof data === 'number' || typeof data === 'string') return data;
  if (Array.isArray(data)) return tuple(data.map((item) => fromJson(item, depth + 1)));
  if (typeof data === 'object')
    return object(Object.entries(data).map(([k, v]) => [k, fromJson(v, depth + 1)] as const));
  throw new EvaluationError('JSON cannot represent this data.');
}

/** Formats JSON text as Terraform writes it: integers in full, <, > and & escaped, keys in order. */
export function jsonText(value: Value): string {
  if (value instanceof Unknown) throw new EvaluationError('The value is not known yet.');
  if (value instanceof Seq) return `[${value.items.map(jsonText).join(',')}]`;
  if (value instanceof Dict)
    return `{${[...value.entries].map(([k, v]) => `${jsonText(k)}:${jsonText(v)}`).join(',')}}`;
  if (typeof value === 'number') return formatNumber(value);
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
