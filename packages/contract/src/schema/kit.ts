import { type Static, type TSchema, Type } from 'typebox';

/**
 * Names of schemas by identity, so that one constant serves validation, serialisation and types as it is and becomes
 * one `components.schemas` entry in the OpenAPI document.
 */
const schemaNames = new WeakMap<object, string>();

export function named<T extends TSchema>(name: string, schema: T): T {
  schemaNames.set(schema, name);
  return schema;
}

export function schemaName(schema: object): string | undefined {
  return schemaNames.get(schema);
}

/** `null` is sent where there is no value (the published API has both this and absence, per field). */
export function Nullable<T extends TSchema>(schema: T) {
  const wrapped = { ...schema, nullable: true };
  // enums would refuse null otherwise
  if ('enum' in wrapped && Array.isArray(wrapped.enum)) Object.assign(wrapped, { enum: [...wrapped.enum, null] });
  return Type.Unsafe<Static<T> | null>(wrapped);
}

/** A string of a fixed set, as one `enum`, which validators and serialisers take fast. */
export function stringEnum<const V extends readonly string[]>(values: V) {
  return Type.Unsafe<V[number]>({ type: 'string', enum: [...values] });
}

/**
 * Every text, list, record and number of a request has a bound (bounds.test.ts walks them all): what one person stores,
 * many others read. The rules of a field may be narrower and say more; lengths are in characters.
 */
/** A name, an address of mail, a schedule: one line. */
export const Line = Type.String({ maxLength: 1_024 });
/** A description or message. */
export const Paragraph = Type.String({ maxLength: 8_192 });
/** The URL or path of an icon or a page. */
export const Address = Type.String({ maxLength: 4_096 });
/** Of a parameter or a variable: what an environment variable of Linux holds (128 KiB). */
export const ParameterValue = Type.String({ maxLength: 131_072 });
/** A signed document or token of a cloud's identity service. */
export const Credential = Type.String({ maxLength: 65_536 });
/** One line of a log; longer ones are cut before they are stored. */
export const LogLine = Type.String({ maxLength: 1_048_576 });
export const Tags = Type.Record(Line, Line, { maxProperties: 100 });

/** Of a request: "", which Go programs send for a text that is not set, reads as absent where the field is optional. */
export const NotEmpty = Type.String({ minLength: 1, maxLength: 1_024 });
export const Uuid = Type.String({ format: 'uuid' });
/**
 * A number of a query that counts or points into a list: what JavaScript and the database's `bigint` both hold exactly.
 * Negative ones mean nothing and are refused.
 */
export const Whole = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** The longest duration of a setting, ten years: added to any time it stays a time that every client can read. */
export const MOST_MILLISECONDS = 10 * 366 * 86_400_000;
/** A duration of a setting. The rules of each field say what is too short. */
export const Milliseconds = Type.Integer({ minimum: -MOST_MILLISECONDS, maximum: MOST_MILLISECONDS });
/** RFC 3339 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: 'date-time' });

const documented = new WeakMap<object, object>();

/**
 * A value that the published document describes otherwise than published programs send it (Go types with their own
 * JSON form). The server speaks as the programs do; its document names both forms.
 */
export function documentedAlso<T extends TSchema>(schema: T, published: object): T {
  documented.set(schema, published);
  return schema;
}

export function documentedForm(schema: object): object | undefined {
  return documented.get(schema);
}
