import { AppError } from '@ropewalk/kit';
import type { FastifyRequest } from 'fastify';
import { notFound } from '../authz/not-found.ts';

/** Parses the body of a client that sent no content type, or no body. */
export function parseLoosely(body: unknown): unknown {
  if (body === undefined) return {};
  checkJsonSize(body as Buffer);
  const text = (body as Buffer).toString('utf8');
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch (err) {
    throw new AppError('invalid', 'Request body must be valid JSON.', { detail: (err as Error).message });
  }
}

/** More lists, objects and fields than any valid body has. The largest, a batch of an agent's log lines, has 200,000. */
const MAX_JSON_PARTS = 300_000;
const [QUOTE, BACKSLASH, BRACE, BRACKET, COLON] = [...Buffer.from('"\\{[:')];

/**
 * Rejects a body with too many parts before it is parsed. 16 MB of empty objects take seconds and a gigabyte to parse.
 * Texts and numbers cost about as much as their bytes, and do not count.
 */
export function checkJsonSize(body: Uint8Array, max = MAX_JSON_PARTS): void {
  let parts = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) {
      for (at++; at < body.length && body[at] !== QUOTE; at++) if (body[at] === BACKSLASH) at++;
    } else if (byte === BRACE || byte === BRACKET || byte === COLON) parts++;
  }
  if (parts <= max) return;
  throw new AppError('too_large', 'The request body has too many parts.', {
    detail: `At most ${max} lists, objects and fields are accepted.`,
  });
}

/** Far deeper than any valid body. A deeper one would overflow the stack of the functions that walk it. */
const MAX_DEPTH = 64;

function tooDeep(): AppError {
  return new AppError('invalid', `The request body is nested more than ${MAX_DEPTH} levels deep.`);
}

function holdsNul(field: string): AppError {
  return new AppError('invalid', 'Validation failed.', {
    validations: [{ field, detail: 'must not contain the character NUL' }],
  });
}

/** Removes nulls from a body. With `checked` it rejects NUL, which the database cannot store in a text. */
export function tidyBody(body: unknown, checked: boolean): void {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    if (tidy(body) && checked) throw holdsNul('body');
    return;
  }
  const fields = body as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    if (fields[key] === null) delete fields[key];
    else if ((tidy(fields[key]) || key.includes('\0')) && checked) throw holdsNul(key.replaceAll('\0', ''));
  }
}

/** Whether a text in the value contains NUL. */
function tidy(value: unknown, depth = 1): boolean {
  if (typeof value === 'string') return value.includes('\0');
  if (value === null || typeof value !== 'object') return false;
  if (depth > MAX_DEPTH) throw tooDeep();
  let found = false;
  if (Array.isArray(value)) {
    for (const item of value) if (tidy(item, depth + 1)) found = true;
    return found;
  }
  const fields = value as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    if (fields[key] === null) delete fields[key];
    else if (tidy(fields[key], depth + 1) || key.includes('\0')) found = true;
  }
  return found;
}

/** Rejects NUL in a URL, because no name contains it. For nearly every request this costs one search of the URL. */
export function checkUrl(request: FastifyRequest): void {
  if (!request.raw.url!.includes('%00')) return;
  for (const value of Object.values(request.params as Record<string, string>)) {
    if (value.includes('\0')) throw notFound();
  }
  for (const [field, value] of Object.entries(request.query as Record<string, unknown>)) {
    if (field.includes('\0') || tidy(value)) throw holdsNul(field.replaceAll('\0', ''));
  }
}
