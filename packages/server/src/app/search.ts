import { AppError } from '@platform/kit';

/** A list query such as `owner:me status:running "some words"`: keys with their values, and what stands free. */
export interface Search {
  terms: Map<string, string>;
  words: string[];
}

/** Keys beyond `known` are refused, since a filter that is silently ignored shows too much. */
export function parseSearch(query: string | undefined, known: readonly string[]): Search {
  const terms = new Map<string, string>();
  const words: string[] = [];
  for (const [part] of (query ?? '').matchAll(/(?:[^\s"]+|"[^"]*")+/g)) {
    const at = part.indexOf(':');
    const value = part.slice(at + 1).replaceAll('"', '');
    if (at < 1) words.push(part.replaceAll('"', ''));
    else {
      const key = part.slice(0, at).toLowerCase();
      if (!known.includes(key)) {
        const detail = `${JSON.stringify(key)} is not a valid query param; known are ${known.join(', ')}`;
        throw new AppError('invalid', 'Query parameters have invalid values.', {
          validations: [{ field: 'q', detail }],
        });
      }
      terms.set(key, value);
    }
  }
  return { terms, words };
}

export function searchBool(search: Search, key: string): boolean | undefined {
  const text = search.terms.get(key);
  if (text === undefined) return undefined;
  if (text === 'true' || text === 'false') return text === 'true';
  throw new AppError('invalid', 'Query parameters have invalid values.', {
    validations: [{ field: key, detail: 'must be true or false' }],
  });
}

export interface Page {
  limit: number;
  offset: number;
}

/** Go's clients send 0 for "as many as there are", which is bounded here. */
export function pageOf(query: { limit?: number; offset?: number }): Page {
  const { limit = 0, offset = 0 } = query;
  if (limit < 0 || offset < 0) throw new AppError('invalid', 'limit and offset must not be negative.');
  return { limit: limit === 0 ? 10_000 : Math.min(limit, 10_000), offset };
}
