/** The part of a search text around the cursor: `key:value`, or a word. */
export interface FilterToken {
  start: number;
  end: number;
  /** Undefined while no colon was typed. */
  key: string | undefined;
  /** Without its quotes. */
  value: string;
}

/** The term that the cursor is in or behind. Quoted values may contain spaces. */
export function tokenAt(text: string, cursor: number): FilterToken {
  for (const found of text.matchAll(/(?:[^\s"]+|"[^"]*"?)+/g)) {
    const start = found.index;
    const end = start + found[0].length;
    if (cursor < start || cursor > end) continue;
    const typed = text.slice(start, cursor);
    const colon = typed.indexOf(':');
    const value = (colon < 0 ? typed : typed.slice(colon + 1)).replaceAll('"', '');
    return { start, end, key: colon > 0 ? typed.slice(0, colon).toLowerCase() : undefined, value };
  }
  return { start: cursor, end: cursor, key: undefined, value: '' };
}

/** Replaces a token by a completed term. Returns the text and where the cursor goes. */
export function replaceToken(text: string, token: FilterToken, term: string): { text: string; cursor: number } {
  const rest = text.slice(token.end).trimStart();
  const before = text.slice(0, token.start);
  // a key alone is completed further
  const isKey = term.endsWith(':');
  const head = before + term + (isKey ? '' : ' ');
  return { text: head + (isKey && rest ? ' ' : '') + rest, cursor: head.length };
}

/** A term with quotes where its value needs them. */
export const filterTerm = (key: string, value: string): string =>
  `${key}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value}`;

/** The terms of a search text. Quoted values may contain spaces, and the last quote may be missing. */
const termsOf = (text: string): string[] => text.match(/(?:[^\s"]+|"[^"]*"?)+/g) ?? [];

/** A search text without the term at the cursor. */
export function withoutTermAt(text: string, cursor: number): string {
  const { start, end } = tokenAt(text, cursor);
  return `${text.slice(0, start).trimEnd()} ${text.slice(end).trim()}`.trim();
}

/** A search text without the term at the cursor if that has no value yet, such as `status:`: it is being written. */
export function withoutOpenTerm(text: string, cursor: number): string {
  const { start, end } = tokenAt(text, cursor);
  return /^[^:"]+:"?$/.test(text.slice(start, end)) ? withoutTermAt(text, cursor) : text;
}

/** A search text in which a key has this value, or none. */
export function withFilterValue(text: string, key: string, value: string | undefined): string {
  const others = termsOf(text).filter((term) => !term.toLowerCase().startsWith(`${key}:`));
  return [...others, ...(value === undefined ? [] : [filterTerm(key, value)])].join(' ');
}

/** The value of a key in a search text, or undefined. */
export function filterValue(text: string, key: string): string | undefined {
  let value: string | undefined;
  for (const part of termsOf(text)) {
    if (part.toLowerCase().startsWith(`${key}:`)) value = part.slice(key.length + 1).replaceAll('"', '');
  }
  return value;
}
