// Upstream's clients are Go programs. For a field that was not set, Go writes the zero value of its type: "", the nil
// UUID, the year 1, 0, and null for lists and objects. The server reads these as unset, by the schema of each route. Go
// reads the names of fields in any case. So does the server.

import { isZeroTime, NIL_UUID } from '../app/values/ids.ts';

interface JsonSchema {
  type?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonSchema[];
  minLength?: number;
  minItems?: number;
  minimum?: number;
  properties?: Record<string, JsonSchema>;
  patternProperties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
}

/** Removes the fields that were not set from a value, and corrects the case of the others' names, in place. */
export type ZeroReader = (value: unknown) => void;

const NOTHING: ZeroReader = () => {};

/**
 * The reader for a schema. It removes an optional field that has the nil UUID, the zero time, or any other zero value
 * that the schema does not allow. A "" or 0 that the schema allows stays. A required list or map that is null becomes
 * empty.
 */
export function zeroReader(schema: object): ZeroReader {
  return compile(schema as JsonSchema) ?? NOTHING;
}

function compile(schema: JsonSchema): ZeroReader | undefined {
  if (schema.type === 'array' && schema.items) {
    const item = compile(schema.items);
    return item && ((value) => Array.isArray(value) && value.forEach(item));
  }
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => ({
    name,
    required: schema.required?.includes(name) ?? false,
    empty: field.type === 'array' ? () => [] : field.patternProperties ? () => ({}) : undefined,
    unset: unsetBy(field),
    inner: compile(field),
  }));
  const [entry] = Object.values(schema.patternProperties ?? {}).map(compile);
  if (fields.length === 0 && !entry) return undefined;
  // the other keys of an object with free keys are data
  const names = new Map(entry ? [] : fields.map(({ name }) => [name.toLowerCase(), name]));
  const known = new Set(names.values());
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const object = value as Record<string, unknown>;
    for (const key of Object.keys(object)) {
      if (known.has(key)) continue;
      const name = names.get(key.toLowerCase());
      if (name === undefined || Object.hasOwn(object, name)) continue;
      object[name] = object[key];
      delete object[key];
    }
    for (const { name, required, empty, unset, inner } of fields) {
      if (!Object.hasOwn(object, name)) continue;
      if (required) {
        if (object[name] === null && empty) object[name] = empty();
      } else if (unset(object[name])) {
        delete object[name];
        continue;
      }
      inner?.(object[name]);
    }
    if (entry) for (const one of Object.values(object)) entry(one);
  };
}

/** The zero values of an optional field that mean that it is not set. */
function unsetBy(schema: JsonSchema): (value: unknown) => boolean {
  const text = !allows(schema, '');
  const zero = !allows(schema, 0);
  const list = !allows(schema, []);
  const { format } = schema;
  return (value) => {
    if (value === '') return text;
    if (value === 0) return zero;
    if (Array.isArray(value)) return list && value.length === 0;
    if (typeof value !== 'string') return false;
    return value === NIL_UUID || (format === 'date-time' && isZeroTime(value));
  };
}

/** Formats of texts that can be empty: an icon is removed with an empty address. */
const EMPTY_FORMATS: ReadonlySet<string | undefined> = new Set([undefined, 'image-address']);

/** Whether a schema allows one of these zero values. The validator rejects one of another type. */
function allows(schema: JsonSchema, zero: '' | 0 | never[]): boolean {
  if (schema.anyOf) return schema.anyOf.some((one) => allows(one, zero));
  if (schema.enum) return schema.enum.includes(zero);
  if (schema.const !== undefined) return schema.const === zero;
  if (Array.isArray(zero)) return schema.type !== 'array' || (schema.minItems ?? 0) === 0;
  if (zero === 0) return (schema.minimum ?? 0) <= 0;
  return schema.type === 'string' && EMPTY_FORMATS.has(schema.format) && (schema.minLength ?? 0) === 0;
}
