import { AppError } from '@ropewalk/kit';
import { isUuid } from '../values/ids.ts';

/** A parsed list query, for example `owner:me status:running "some words"`: keys with their values, and free words. */
export interface Search {
  /** The last value of each key. */
  terms: Map<string, string>;
  /** Every key with its value, in order. */
  pairs: [key: string, value: string][];
  words: string[];
}

/** The error for an invalid query field, in upstream's words. */
export function badQuery(field: string, detail: string): AppError {
  return new AppError('invalid', 'Query parameters have invalid values.', { validations: [{ field, detail }] });
}

/** The limits of one search: the database plans and runs every term. */
export const MAX_SEARCH_LENGTH = 4_000;
export const MAX_SEARCH_TERMS = 40;

/** A LIKE pattern for text at any position. */
export const anywhere = (text: string) => `%${text.replaceAll(/[\\%_]/g, (c) => `\\${c}`)}%`;

/**
 * Parses a list query. Rejects what it would otherwise have to ignore, since an ignored filter would show too much: keys
 * beyond `known`, keys without a value, and a second value of a key that is not `repeatable`. Also rejects searches beyond
 * the limits.
 * @throws AppError `invalid`
 */
export function parseSearch(
  query: string | undefined,
  known: readonly string[],
  repeatable: readonly string[] = [],
): Search {
  if ((query?.length ?? 0) > MAX_SEARCH_LENGTH) {
    throw badQuery('q', `must have at most ${MAX_SEARCH_LENGTH} characters`);
  }
  const pairs: [string, string][] = [];
  const words: string[] = [];
  for (const [part] of (query ?? '').matchAll(/(?:[^\s"]+|"[^"]*")+/g)) {
    if (part.startsWith(':') || part.endsWith(':')) {
      throw badQuery('q', `${JSON.stringify(part)} cannot start or end with ":": write a filter as key:value`);
    }
    const at = part.indexOf(':');
    const value = part.slice(at + 1).replaceAll('"', '');
    if (pairs.length + words.length >= MAX_SEARCH_TERMS) {
      throw badQuery('q', `must have at most ${MAX_SEARCH_TERMS} terms`);
    }
    if (at < 0) words.push(part.replaceAll('"', ''));
    else {
      const key = part.slice(0, at).toLowerCase();
      if (!known.includes(key)) {
        const detail = `${JSON.stringify(key)} is not a valid query param; valid ones are ${known.join(', ')}`;
        throw badQuery('q', detail);
      }
      if (!repeatable.includes(key) && pairs.some(([other]) => other === key)) {
        throw badQuery(key, `${JSON.stringify(key)} is given more than once`);
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

/**
 * The time in a query field, with a four-digit year, which the database can store.
 * @throws AppError `invalid`
 */
export function queryTime(field: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const time = new Date(text);
  const year = time.getUTCFullYear();
  if (year >= 1 && year <= 9999) return time;
  throw badQuery(field, 'must be an RFC 3339 time, for example 2026-01-31T12:00:00Z');
}

/** The value of a key that must be one of a fixed set, in any case. */
export function searchOneOf(search: Search, key: string, allowed: readonly string[]): string | undefined {
  const text = search.terms.get(key)?.toLowerCase();
  if (text === undefined || allowed.includes(text)) return text;
  throw badQuery(key, `${JSON.stringify(text)} is not one of ${allowed.join(', ')}`);
}

/** The values of a key, separated by commas, which must be of a fixed set if there is one. In lower case. */
export function searchList(search: Search, key: string, allowed?: readonly string[]): string[] {
  const values = (search.terms.get(key) ?? '').toLowerCase().split(',').filter(Boolean);
  const wrong = allowed && values.find((value) => !allowed.includes(value));
  if (wrong) throw badQuery(key, `${JSON.stringify(wrong)} is not one of ${allowed.join(', ')}`);
  return values;
}

export function searchUuid(search: Search, key: string): string | undefined {
  const text = search.terms.get(key);
  if (text === undefined || isUuid(text)) return text;
  throw badQuery(key, 'must be a valid UUID');
}

export function searchTime(search: Search, key: string): Date | undefined {
  return queryTime(key, search.terms.get(key));
}

export interface Page {
  limit: number;
  offset: number;
}

/** Go's clients send 0 for "no limit". The server applies its own limit. */
export function pageOf(query: { limit?: number; offset?: number }): Page {
  const { limit = 0, offset = 0 } = query;
  if (limit < 0 || offset < 0) throw new AppError('invalid', 'limit and offset must not be negative.');
  return { limit: limit === 0 ? 10_000 : Math.min(limit, 10_000), offset };
}
