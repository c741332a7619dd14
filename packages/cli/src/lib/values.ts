import { readFileSync } from 'node:fs';
import { AppError } from '@ropewalk/kit/errors';

export interface NamedValue {
  name: string;
  value: string;
}

/** `name=value` texts, as given to `--parameter` or `--variable`. */
export function namedValues(texts: readonly string[], flag: string): NamedValue[] {
  return texts.map((text) => {
    const at = text.indexOf('=');
    if (at < 1) throw new AppError('invalid', `Invalid --${flag} ${JSON.stringify(text)}: write it as name=value.`);
    return { name: text.slice(0, at).trim(), value: text.slice(at + 1) };
  });
}

/** Reads names and values from a YAML or JSON file. Lists and maps become JSON texts. */
export async function valuesFile(path: string): Promise<NamedValue[]> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (err) {
    throw new AppError('invalid', `Could not read ${path}: ${(err as Error).message}`);
  }
  const { isMap, isScalar, parseDocument } = await import('yaml');
  let document: ReturnType<typeof parseDocument>;
  let parsed: unknown;
  try {
    document = parseDocument(text);
    if (document.errors[0]) throw document.errors[0];
    parsed = document.toJS();
  } catch (err) {
    throw new AppError('invalid', `${path} is not valid YAML: ${(err as Error).message.split('\n')[0]}`);
  }
  if (parsed === null || parsed === undefined) return [];
  if (typeof parsed !== 'object' || Array.isArray(parsed)) {
    throw new AppError('invalid', `${path} must contain names and values, one per line, such as region: eu.`);
  }
  // a number keeps its characters: the version 1.10 is not 1.1, and the mode 0755 is not 755
  const sourceOf = (name: string) => {
    const node = isMap(document.contents) ? document.contents.get(name, true) : undefined;
    return isScalar(node) ? node.source : undefined;
  };
  return Object.entries(parsed).map(([name, value]) => ({
    name,
    value:
      typeof value === 'number' || typeof value === 'bigint'
        ? (sourceOf(name) ?? String(value))
        : value === null
          ? ''
          : typeof value === 'object'
            ? JSON.stringify(value)
            : String(value),
  }));
}

/** Joins lists. The last value of a name takes precedence. */
export function merged<T extends NamedValue>(...lists: readonly (readonly T[])[]): T[] {
  return [...new Map(lists.flat().map((one) => [one.name, one])).values()];
}
