import { AppError } from '@ropewalk/kit';
import type { ItemVariable } from '../template-catalog/items.ts';

/** The longest text of a variable, in bytes, as upstream limits it. */
const MAX_TEXT_BYTES = 4_096;

/** What upstream's clients send for an optional variable without a value. */
const UNSET = 'null';

const SIMPLE: ReadonlyMap<string, string> = new Map(
  Object.entries({ '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }),
);

/**
 * A text as a quoted string of Terraform's language. Quotes, backslashes, line breaks and other control characters are
 * escaped, and so are the `${` and `%{` that would begin an expression, so the string always ends where this one does.
 */
export function quoted(text: string): string {
  let out = '';
  for (const char of text.toWellFormed()) {
    const code = char.codePointAt(0)!;
    const control = code < 0x20 || (code >= 0x7f && code <= 0x9f) || code === 0x2028 || code === 0x2029;
    out += SIMPLE.get(char) ?? (control || code === 0xfeff ? `\\u${code.toString(16).padStart(4, '0')}` : char);
  }
  return `"${out.replaceAll(/([$%])(?=\{)/g, '$1$1')}"`;
}

/** The source text of a value. */
export const literalOf = (value: string | number | boolean): string =>
  typeof value === 'string' ? quoted(value) : String(value);

/** A value that a person gives, and its form in a composed template. */
export interface Value {
  /** Its source text. */
  literal: string;
  value: string | number | boolean;
}

const wrong = (place: string, why: string) =>
  new AppError('invalid', 'Failed to compose template.', { detail: `${place}: ${why}.` });

function parseValue({ type }: ItemVariable, text: string, place: string): Value {
  switch (type) {
    case 'number': {
      if (!/^-?[0-9]{1,15}(\.[0-9]{1,15})?$/.test(text))
        throw wrong(place, `${JSON.stringify(text.slice(0, 100))} is not a number, such as 42 or 3.14`);
      return { literal: text, value: Number(text) };
    }
    case 'bool':
      if (text !== 'true' && text !== 'false')
        throw wrong(place, `${JSON.stringify(text.slice(0, 100))} is neither true nor false`);
      return { literal: text, value: text === 'true' };
    case 'string':
      if (Buffer.byteLength(text) > MAX_TEXT_BYTES) throw wrong(place, `the limit is ${MAX_TEXT_BYTES} bytes`);
      if (text.includes('\0')) throw wrong(place, 'it must not contain a NUL character');
      return { literal: quoted(text), value: text.toWellFormed() };
  }
}

/**
 * The values of an item's variables by name, in the order of the variables. Throws an AppError for a name that the item
 * does not have, a value of the wrong type, and a required variable without one. The import asks for sensitive values that are
 * missing. `place` names the item.
 */
export function valuesOf(
  variables: readonly ItemVariable[],
  given: Readonly<Record<string, string>>,
  place: string,
): Map<ItemVariable, Value> {
  const names = new Set(variables.map(({ name }) => name));
  const unknown = Object.keys(given).find((name) => !names.has(name));
  if (unknown !== undefined) throw wrong(place, `unknown variable ${JSON.stringify(unknown)}`);
  const values = new Map<ItemVariable, Value>();
  for (const variable of variables) {
    const text = Object.hasOwn(given, variable.name) ? given[variable.name] : undefined;
    const at = `${place}, variable ${JSON.stringify(variable.name)}`;
    if (text !== undefined && text !== UNSET) values.set(variable, parseValue(variable, text, at));
    else if (variable.required && !variable.sensitive) throw wrong(at, 'a value is required');
  }
  return values;
}
