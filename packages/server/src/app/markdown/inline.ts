// The text of one Markdown paragraph without its marks. Links keep their address in parentheses, HTML tags are removed,
// code keeps its content. All work is linear in the length, since template authors write the text.

import { ownValue } from '@ropewalk/kit/own-value';
import { addRun, type Delimiters, removeMarks } from './emphasis.ts';
import { withoutTags } from './html.ts';

/** Addresses of link definitions by label, in lower case. */
export type References = ReadonlyMap<string, string>;

const LONGEST_ADDRESS = 2_048;
const LONGEST_LABEL = 999;
/** The deepest parentheses in an address. With deeper ones it is not an address. */
const DEEPEST = 32;
const ENTITIES: Record<string, string> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  copy: '©',
  reg: '®',
  trade: '™',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  larr: '←',
  rarr: '→',
};
const SPECIAL = /[\\`*_~[\]!<&\nhwf@]/g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const AUTOLINK = /<([a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]{0,2048})>/y;
const ENTITY = /&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;
const BARE = /(?:https?:\/\/|ftp:\/\/|www\.)[^\s<]{1,2048}/y;

const DOMAIN = /[a-zA-Z0-9-]{1,63}(?:\.[a-zA-Z0-9-]{1,63}){1,8}/y;

interface Bracket {
  image: boolean;
  piece: number;
  /** The start of the text after it. */
  at: number;
  /** The number of characters written before it. */
  written: number;
}

/** The text of a paragraph. */
export function inlineText(text: string, references: References): string {
  const pieces: string[] = [];
  const runs: Delimiters = { first: undefined, last: undefined };
  const brackets: Bracket[] = [];
  /** Bare addresses in the text. Those inside a link's text are not links. */
  const bare: { piece: number; text: string }[] = [];
  const tags = withoutTags(text);
  const closing = closingTicks(text);
  /** Brackets before this position cannot open a link: links do not nest. */
  let barrier = 0;
  let at = 0;
  let plain = 0;
  let written = 0;

  const flush = () => {
    if (plain === at) return;
    pieces.push(text.slice(plain, at));
    written += at - plain;
    plain = at;
  };
  /** Ends the plain text here and continues at `to`. */
  const take = (to: number, piece: string): true => {
    flush();
    pieces.push(piece);
    written += piece.length;
    at = to;
    plain = to;
    return true;
  };

  function addBare(raw: string, shown: string): true {
    take(at + raw.length, shown);
    bare.push({ piece: pieces.length - 1, text: raw });
    return true;
  }

  function closeBracket(): boolean {
    const bracket = brackets.pop();
    if (!bracket) return false;
    if (!bracket.image && brackets.length < barrier) return false;
    const label = at - bracket.at <= LONGEST_LABEL ? text.slice(bracket.at, at) : undefined;
    const found = inlineAddress(text, at + 1) ?? referenced(text, at + 1, label, references);
    if (!found) return false;
    flush();
    pieces[bracket.piece] = '';
    while ((bare.at(-1)?.piece ?? -1) > bracket.piece) {
      const { piece, text: raw } = bare.pop()!;
      pieces[piece] = raw;
    }
    const address = shownAddress(found.address);
    take(found.end, address === '' ? '' : `${written === bracket.written ? '' : ' '}(${address})`);
    if (!bracket.image) barrier = brackets.length;
    return true;
  }

  function special(char: string): boolean {
    const next = text[at + 1];
    switch (char) {
      case '\\':
        if (next === '\n') return take(at + 1, '');
        if (next === undefined || !PUNCTUATION.test(next)) return false;
        return take(at + 2, next);
      case '`': {
        const length = runLength(text, at);
        const end = closing.get(at);
        if (end === undefined) return take(at + length, text.slice(at, at + length));
        return take(end + length, codeText(text.slice(at + length, end)));
      }
      case '*':
      case '_':
      case '~': {
        const length = runLength(text, at);
        flush();
        addRun(runs, text, at, length, pieces.length);
        return take(at + length, text.slice(at, at + length));
      }
      case '!':
      case '[': {
        const image = char === '!';
        if (image && next !== '[') return false;
        flush();
        const end = at + (image ? 2 : 1);
        take(end, text.slice(at, end));
        brackets.push({ image, piece: pieces.length - 1, at: end, written });
        return true;
      }
      case ']':
        return closeBracket();
      case '<': {
        const link = matchAt(AUTOLINK, text, at);
        if (link) return take(at + link[0].length, `(${link[1]!})`);
        const end = tags.get(at);
        return end === undefined ? false : take(end, '');
      }
      case '&': {
        const entity = matchAt(ENTITY, text, at);
        const decoded = entity && decode(entity);
        return decoded === undefined ? false : take(at + entity![0].length, decoded);
      }
      case '\n': {
        // spaces around a line break are not shown
        let from = at;
        while (from > plain && (text[from - 1] === ' ' || text[from - 1] === '\t')) from--;
        let to = at + 1;
        while (text[to] === ' ' || text[to] === '\t') to++;
        const line = text.slice(plain, from);
        plain = at;
        return take(to, `${line}\n`);
      }
      case '@': {
        let from = at;
        while (from > plain && at - from < 64 && /[a-zA-Z0-9._+-]/.test(text[from - 1]!)) from--;
        const domain = matchAt(DOMAIN, text, at + 1)?.[0];
        if (from === at || !domain) return false;
        const address = `${text.slice(from, at)}@${domain}`;
        at = from;
        return addBare(address, `${address} (mailto:${address})`);
      }
      default: {
        if (/[a-zA-Z0-9]/.test(text[at - 1] ?? ' ')) return false;
        const found = matchAt(BARE, text, at);
        if (!found) return false;
        // inside brackets an address ends with them
        const link = trimmedLink(brackets.length > 0 ? found[0].replace(/\].*/, '') : found[0]);
        return addBare(link, `(${link.startsWith('www.') ? `http://${link}` : link})`);
      }
    }
  }

  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text);
    if (!found) break;
    at = found.index;
    if (!special(found[0])) at++;
  }
  at = text.length;
  flush();
  removeMarks(runs, pieces);
  return pieces.join('');
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

function runLength(text: string, at: number): number {
  let end = at + 1;
  while (text[end] === text[at]) end++;
  return end - at;
}

/** The closing run for each run of backticks, of the same length. A run without one is text. */
function closingTicks(text: string): Map<number, number> {
  const runs = [...text.matchAll(/`+/g)];
  const next = new Map<number, number>();
  const closing = new Map<number, number>();
  for (const run of runs.reverse()) {
    const end = next.get(run[0].length);
    if (end !== undefined) closing.set(run.index, end);
    next.set(run[0].length, run.index);
  }
  return closing;
}

function codeText(code: string): string {
  const line = code.replaceAll('\n', ' ');
  return line.startsWith(' ') && line.endsWith(' ') && line.trim() !== '' ? line.slice(1, -1) : line;
}

function decode([, decimal, hex, name]: RegExpExecArray): string | undefined {
  if (name !== undefined) return ownValue(ENTITIES, name);
  const code = decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal);
  const valid = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? String.fromCodePoint(code) : '\ufffd';
}

interface Found {
  address: string;
  /** The position after the link. */
  end: number;
}

/** Parses `(address "title")` at a position. */
function inlineAddress(text: string, from: number): Found | undefined {
  if (text[from] !== '(') return undefined;
  const start = skipSpace(text, from + 1);
  const parsed = addressAt(text, start);
  if (!parsed) return undefined;
  let end = skipSpace(text, parsed.end);
  if (end > parsed.end) {
    const title = titleEnd(text, end);
    if (title !== undefined) end = skipSpace(text, title);
  }
  return text[end] === ')' ? { address: parsed.address, end: end + 1 } : undefined;
}

/** Parses an address, in angle brackets or without spaces. */
export function addressAt(text: string, start: number): Found | undefined {
  if (text[start] === '<') {
    const link = matchAt(/<([^<>\n]{0,2048})>/y, text, start);
    return link && { address: link[1]!, end: start + link[0].length };
  }
  let end = start;
  let depth = 0;
  for (; end < text.length && end - start <= LONGEST_ADDRESS; end++) {
    const char = text[end]!;
    if (char <= ' ' || char === '\u007f') break;
    if (char === '\\' && PUNCTUATION.test(text[end + 1] ?? '')) end++;
    else if (char === '(' && ++depth > DEEPEST) return undefined;
    else if (char === ')' && --depth < 0) break;
  }
  return depth > 0 || end - start > LONGEST_ADDRESS ? undefined : { address: unescaped(text.slice(start, end)), end };
}

/** The position after the title. Undefined without a title. */
export function titleEnd(text: string, at: number): number | undefined {
  const open = text[at];
  if (open !== '"' && open !== "'" && open !== '(') return undefined;
  const close = open === '(' ? ')' : open;
  for (let end = at + 1; end < text.length && end - at < LONGEST_ADDRESS; end++) {
    if (text[end] === '\\') end++;
    else if (text[end] === close) return end + 1;
  }
  return undefined;
}

function skipSpace(text: string, at: number): number {
  let end = at;
  while (text[end] === ' ' || text[end] === '\t' || text[end] === '\n') end++;
  return end;
}

const unescaped = (text: string) => text.replaceAll(/\\([!-/:-@[-`{-~])/g, '$1');

/** Resolves `[label]`, `[]` or nothing after a bracket, with the document's definitions. */
function referenced(text: string, at: number, own: string | undefined, references: References): Found | undefined {
  if (references.size === 0) return undefined;
  const given = matchAt(/\[([^[\]]{0,999})\]/y, text, at);
  const label = given?.[1] || own;
  const address = label === undefined ? undefined : references.get(labelKey(label));
  return address === undefined ? undefined : { address, end: at + (given?.[0].length ?? 0) };
}

export const labelKey = (label: string) => label.trim().replaceAll(/\s+/g, ' ').toLowerCase();

/** The address as it is shown: empty for a place on the same page, and a path from the root otherwise. */
function shownAddress(address: string): string {
  if (address === '' || address.startsWith('#') || /\s/.test(address)) return '';
  return /^(?:[a-zA-Z][a-zA-Z0-9+.-]*:|\/)/.test(address) ? address : `/${address}`;
}

/** A bare link without the punctuation of the sentence around it. */
function trimmedLink(link: string): string {
  let end = link.length;
  let open = 0;
  for (const char of link) open += char === '(' ? 1 : char === ')' ? -1 : 0;
  for (; end > 0; end--) {
    const char = link[end - 1]!;
    if (char === ')' && open < 0) open++;
    else if (!/[?!.,:*_~'"]/.test(char)) break;
  }
  return link.slice(0, end);
}
