import { type Static, type TSchema, Type } from 'typebox';

/**
 * Names of schemas by identity, so that one constant serves validation, serialization and types unchanged and becomes
 * one `components.schemas` entry in the OpenAPI document.
 */
const schemaNames = new WeakMap<object, string>();

/**
 * Gives a schema its name in the OpenAPI document: the one of upstream's Go type in `codersdk`, if upstream has the type.
 */
export function named<T extends TSchema>(name: string, schema: T): T {
  schemaNames.set(schema, name);
  return schema;
}

export function schemaName(schema: object): string | undefined {
  return schemaNames.get(schema);
}

/** A schema whose absent value is sent as `null`. Upstream's API uses null for some fields and absence for others. */
export function Nullable<T extends TSchema>(schema: T) {
  const wrapped = { ...schema, nullable: true };
  // Otherwise enums would reject null.
  if ('enum' in wrapped && Array.isArray(wrapped.enum)) Object.assign(wrapped, { enum: [...wrapped.enum, null] });
  return Type.Unsafe<Static<T> | null>(wrapped);
}

/** A string of a fixed set as one `enum`, which validators and serializers process fast. */
export function stringEnum<const V extends readonly string[]>(values: V) {
  return Type.Unsafe<V[number]>({ type: 'string', enum: [...values] });
}

/**
 * Every text, list, record and number of a request has a limit (bounds.test.ts checks all of them): many people read
 * what one person stores. A field's own rules may be narrower and explain more. Lengths are in characters.
 */
/** A name, an email address, a schedule: one line. */
export const Line = Type.String({ maxLength: 1_024 });
/** A description or message. */
export const Paragraph = Type.String({ maxLength: 8_192 });
/** The URL or path of an icon or a page. */
export const Address = Type.String({ maxLength: 4_096 });
/**
 * An icon or picture: a path or an HTTP(S) URL. Other schemes are rejected, because a page that links to it would run
 * `javascript:` and show anything as `data:`. Browsers ignore leading blanks and control characters within a scheme.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: an address has none
export const IMAGE_ADDRESS = /^(?! *(?![Hh][Tt][Tt][Pp][Ss]?:)[A-Za-z][A-Za-z0-9+.-]*:)[^\u0000-\u001f\u007f]*$/;
export const ImageAddress = Type.String({ maxLength: 4_096, format: 'image-address' });
/** The value of a parameter or a variable, as long as an environment variable of Linux (128 KiB). */
export const ParameterValue = Type.String({ maxLength: 131_072 });
/** A signed document or token of a cloud's identity service. */
export const Credential = Type.String({ maxLength: 65_536 });
/** One line of a log. Longer ones are cut before they are stored. */
export const LogLine = Type.String({ maxLength: 1_048_576 });
export const Tags = Type.Record(Line, Line, { maxProperties: 100 });

/**
 * A non-empty text of a request. Go programs send "" for an unset text. If the field is optional, "" counts as absent.
 */
export const NotEmpty = Type.String({ minLength: 1, maxLength: 1_024 });
/** A UUID with hyphens, in upper or lower case. */
export const Uuid = Type.String({ format: 'uuid' });
/**
 * A number of a query that counts or is a position in a list, limited to what both JavaScript and the database's
 * `bigint` represent exactly. Negative numbers are rejected.
 */
export const Whole = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/**
 * The id of a log line in a query, as the limit of a range. A negative one is before every line: upstream's dashboard
 * sends `after=-1` for the whole log.
 */
export const LogPosition = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER });
/**
 * The longest duration of a setting, ten years: added to any time, the result is still a time that every client can
 * parse.
 */
export const MAX_MILLISECONDS = 10 * 366 * 86_400_000;
/** A duration of a setting. The rules of each field define the minimum. */
export const Milliseconds = Type.Integer({ minimum: -MAX_MILLISECONDS, maximum: MAX_MILLISECONDS });
/** RFC 3339 in UTC with milliseconds. */
export const Timestamp = Type.String({ format: 'date-time' });

const documented = new WeakMap<object, object>();

/**
 * A value that upstream's API document and upstream's programs define differently (Go types with their
 * own JSON form). The server follows the programs. Its document contains both forms.
 */
export function documentedAlso<T extends TSchema>(schema: T, published: object): T {
  documented.set(schema, published);
  return schema;
}

export function documentedForm(schema: object): object | undefined {
  return documented.get(schema);
}
