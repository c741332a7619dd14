import { AppError } from '@platform/kit';

/** A list query such as `owner:me status:running "some words"`: keys with their values, and what stands free. */
export interface Search {
  /** The last value of each key. */
  terms: Map<string, string>;
  /** Every key with its value, in order. */
  pairs: [key: string, value: string][];
  words: string[];
}

/** What is wrong with a field of a query, in the published words. */
export function badQuery(field: string, detail: string): AppError {
  return new AppError('invalid', 'Query parameters have invalid values.', { validations: [{ field, detail }] });
}

/** Bounds of one search: the database plans and runs every term of it. */
export const MOST_SEARCH_LENGTH = 4_000;
export const MOST_SEARCH_TERMS = 40;

/** A LIKE pattern for text that stands anywhere. */
export const anywhere = (text: string) => `%${text.replaceAll(/[\\%_]/g, (c) => `\\${c}`)}%`;

/**
 * Rejects keys beyond `known`, since a filter that is silently ignored shows too much, and searches beyond the bounds.
 * @throws AppError `invalid`
 */
export function parseSearch(query: string | undefined, known: readonly string[]): Search {
  if ((query?.length ?? 0) > MOST_SEARCH_LENGTH) {
    throw badQuery('q', `must have at most ${MOST_SEARCH_LENGTH} characters`);
  }
  const pairs: [string, string][] = [];
  const words: string[] = [];
  for (const [part] of (query ?? '').matchAll(/(?:[^\s"]+|"[^"]*")+/g)) {
    const at = part.indexOf(':');
    const value = part.slice(at + 1).replaceAll('"', '');
    if (pairs.length + words.length >= MOST_SEARCH_TERMS) {
      throw badQuery('q', `must have at most ${MOST_SEARCH_TERMS} terms`);
    }
    if (at < 1) words.push(part.replaceAll('"', ''));
    else {
      const key = part.slice(0, at).toLowerCase();
      if (!known.includes(key)) {
        const detail = `${JSON.stringify(key)} is not a valid query param; known are ${known.join(', ')}`;
        throw badQuery('q', detail);
      }
      pairs.push([key, value]);
    }
  }
  return { terms: new Map(pairs), pairs, words };
}

export function searchBool(search: Search, key: string): boolean | undefined {
  const text = search.terms.get(key);
  if (text === undefined) return undefined;
  if (text === 'true' || text === 'false') return text === 'true';
  throw badQuery(key, 'must be true or false');
}

/** The time that a field of a query gives, of the years of four digits that the database keeps. @throws AppError `invalid`. */
export function queryTime(field: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const time = new Date(text);
  const year = time.getUTCFullYear();
  if (year >= 1 && year <= 9999) return time;
  throw badQuery(field, 'must be a time as of RFC 3339, such as 2026-01-31T12:00:00Z');
}

export function searchTime(search: Search, key: string): Date | undefined {
  return queryTime(key, search.terms.get(key));
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
