import { plainText } from './ansi.ts';
import type { LogLine } from './log-store.ts';

/** A line of an excerpt, with its place in the log. */
export interface ExcerptLine {
  /** The index in the log. */
  index: number;
  text: string;
  /** Whether the excerpt leaves out lines before this one. */
  afterGap: boolean;
}

/** More lines than these would push the log out of the window. */
export const MAX_EXCERPT_LINES = 6;
/** Of a longer message: what failed and where. */
const FIRST_LINES = 2;
/** Frames that Terraform draws around messages in a terminal. */
const FRAME = /^[│╷╵]\s?/;
/** The quoted source: `  12:   input = var.missing`. */
const QUOTED = /^\s*\d+: /;

/** A line of a message without its frame and styles. */
export const withoutFrame = (text: string): string => plainText(text).replace(FRAME, '').trimEnd();

/** Whether a line says nothing: it is blank, or quotes the source. */
export const isFiller = (text: string): boolean => text.trim() === '' || QUOTED.test(text);

/** Terraform says first what failed and where, and last the reason, so a long message loses its middle. */
export function excerptOf(lines: readonly { index: number; text: string }[]): ExcerptLine[] {
  const last = lines.length > MAX_EXCERPT_LINES ? MAX_EXCERPT_LINES - FIRST_LINES : lines.length;
  const shown = last < lines.length ? [...lines.slice(0, FIRST_LINES), ...lines.slice(-last)] : lines;
  return shown.map((line, at) => ({ ...line, afterGap: last < lines.length && at === FIRST_LINES }));
}

/** The last error of a log: its last lines of the level `error`, without blank ones and quoted source. */
export function lastError(lines: readonly LogLine[]): ExcerptLine[] {
  let end = lines.length;
  while (end > 0 && lines[end - 1]!.level !== 'error') end--;
  let start = end;
  while (start > 0 && lines[start - 1]!.level === 'error') start--;
  const texts = lines.slice(start, end).map(({ text }) => withoutFrame(text));
  // several errors follow each other: the last one counts
  const heading = texts.findLastIndex((text) => text.startsWith('Error: '));
  return excerptOf(texts.flatMap((text, at) => (at < heading || isFiller(text) ? [] : [{ index: start + at, text }])));
}
