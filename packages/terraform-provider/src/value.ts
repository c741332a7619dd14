import { decode, ExtensionCodec, encode } from '@msgpack/msgpack';

/** Terraform's "known after apply". */
export class Unknown {
  readonly kind = 'unknown';
}
export const UNKNOWN = new Unknown();

/**
 * A value of Terraform's type system as plain data: lists, sets and tuples are arrays, maps and objects are records.
 */
export type Value = string | number | boolean | null | Unknown | Value[] | Obj;
export interface Obj {
  [name: string]: Value;
}

/** A type in Terraform's JSON notation: `"string"`, `["list","string"]`, `["object",{"name":"string"}]`. */
export type TypeSpec = string | [string, TypeSpec | Record<string, TypeSpec>];

const codec = new ExtensionCodec();
codec.register({
  type: 0,
  encode: (input: unknown) => (input instanceof Unknown ? new Uint8Array([0]) : null),
  decode: () => UNKNOWN,
});
// Type 12 is an unknown value with refinements (a known prefix, a length range). This provider treats it as unknown.
codec.register({ type: 12, encode: () => null, decode: () => UNKNOWN });

/** Decodes the msgpack form of a dynamic value. Integers beyond 64 bits become strings. */
export function decodeMsgpack(bytes: Uint8Array): Value {
  return bytes.length === 0 ? null : (decode(bytes, { extensionCodec: codec }) as Value);
}

export function encodeMsgpack(value: Value): Uint8Array<ArrayBuffer> {
  return encode(value, { extensionCodec: codec });
}

export const isUnknown = (value: Value | undefined): value is Unknown => value instanceof Unknown;

export function isObj(value: Value | undefined): value is Obj {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isUnknown(value);
}

/** Whether no part of the value is unknown. */
export function whollyKnown(value: Value): boolean {
  if (isUnknown(value)) return false;
  if (Array.isArray(value)) return value.every(whollyKnown);
  if (isObj(value)) return Object.values(value).every(whollyKnown);
  return true;
}

/** The string at `name`. Empty if it is null, unknown or absent. */
export function str(obj: Obj, name: string): string {
  const value = obj[name];
  return typeof value === 'string' ? value : '';
}

/** The number at `name`. Undefined if it is null, unknown or absent. */
export function num(obj: Obj, name: string): number | undefined {
  const value = obj[name];
  return typeof value === 'number' ? value : undefined;
}

export const bool = (obj: Obj, name: string): boolean => obj[name] === true;

/** The nested blocks at `name`. Empty if the block list itself is unknown. */
export function blocks(obj: Obj, name: string): Obj[] {
  const value = obj[name];
  return Array.isArray(value) ? value.filter(isObj) : [];
}

/** Formats a value so that equal values have equal text, whatever the order of an object's keys. */
export function canonical(value: Value): string {
  if (isUnknown(value)) return '?';
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (isObj(value)) {
    const keys = Object.keys(value).sort();
    return `{${keys.map((k) => `${JSON.stringify(k)}:${canonical(value[k]!)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}
