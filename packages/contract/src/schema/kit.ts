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

export const Uuid = Type.String({ format: 'uuid' });
/**
 * A number of a query that counts or points into a list: what JavaScript and the database's `bigint` both hold exactly.
 * Negative ones mean nothing and are refused.
 */
export const Whole = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** Of a request: as many as the database keeps. What is too few is told by the rules of each field. */
export const Milliseconds = Type.Integer({ maximum: Number.MAX_SAFE_INTEGER });
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
