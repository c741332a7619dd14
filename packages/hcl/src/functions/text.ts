import { compile, type Expression, type Match } from '@ropewalk/kit/re2';
import { count, EvaluationError, list, map, toNumber, toText, tuple, typeName, type Value } from '../values.ts';
import { format } from './format.ts';
import { type Fn, MANY, type Meter, seq } from './types.ts';

const one = (run: (text: string) => Value): Fn => ({ least: 1, run: (a) => run(toText(a!)) });
const two = (run: (text: string, other: string) => Value): Fn => ({
  least: 2,
  run: (a, b) => run(toText(a!), toText(b!)),
});

/** The instructions of a regular expression that count as one step. */
const STEP = 32;

/** Returns the result of `regex` for one match: the text, the groups in order, or the groups by name. */
function captured({ text, groups, named }: Match): Value {
  if (named) return map(Object.entries(named).map(([name, part]) => [name, part ?? null] as const));
  return groups.length === 0 ? text : tuple(groups.map((part) => part ?? null));
}

const stripChars = (text: string, chars: string, left: boolean, right: boolean): string => {
  const units = [...text];
  const set = new Set(chars);
  let from = 0;
  let to = units.length;
  while (left && from < to && set.has(units[from]!)) from++;
  while (right && to > from && set.has(units[to - 1]!)) to--;
  return units.slice(from, to).join('');
};

/**
 * Changes case character by character, as Terraform does: a character whose other case has several characters stays.
 */
function eachRune(text: string, change: (c: string) => string): string {
  return Array.from(text, (c) => {
    const changed = change(c);
    return [...changed].length === 1 ? changed : c;
  }).join('');
}

let graphemes: Intl.Segmenter | undefined;
/** Finding a character's end takes as long as a few steps. */
export function characters(meter: Meter, text: string): string[] {
  meter.steps(Math.ceil(text.length / 8));
  // it loads tables for 17 ms, and most templates ask for no characters
  graphemes ??= new Intl.Segmenter('und', { granularity: 'grapheme' });
  return Array.from(graphemes.segment(text), (s) => s.segment);
}

function substr(meter: Meter, text: string, offset: number, length: number): string {
  const all = characters(meter, text);
  const from = offset < 0 ? all.length + offset : offset;
  if (from < 0 || length === 0) return '';
  return all.slice(from, length < 0 ? all.length : from + length).join('');
}

/** Expands Go's replacement template: `$1`, `${name}`, `$$`. */
function expand(template: string, match: Match): string {
  return template.replace(/\$(\$|\w+|\{\w+\})/g, (_all, word: string) => {
    if (word === '$') return '$';
    const name = word.replace(/[{}]/g, '');
    if (name === '0') return match.text;
    return (/^\d+$/.test(name) ? match.groups[Number(name) - 1] : match.named?.[name]) ?? '';
  });
}

function replace(meter: Meter, text: string, find: string, by: string): string {
  let out = '';
  let last = 0;
  const put = (at: number, length: number, replacement: string) => {
    meter.steps(1 + Math.floor(replacement.length / 64));
    out += text.slice(last, at) + replacement;
    meter.room(out.length);
    last = at + length;
  };
  if (find.length > 1 && find.startsWith('/') && find.endsWith('/')) {
    for (const match of found(meter, find.slice(1, -1), text)) put(match.index, match.text.length, expand(by, match));
  } else {
    // An empty text matches before each character and at the end.
    if (find === '') return replace(meter, text, '//', by.replaceAll('$', '$$$$'));
    for (let at = text.indexOf(find); at >= 0; at = text.indexOf(find, last)) put(at, find.length, by);
  }
  return out + text.slice(last);
}

/** Yields the matches of an RE2 expression. */
function* found(meter: Meter, pattern: string, text: string): Generator<Match> {
  let expression: Expression;
  try {
    meter.steps(2 * pattern.length);
    expression = compile(pattern);
    meter.steps(Math.ceil(expression.size / 2));
    yield* expression.matches(text, (steps) => meter.steps(1 + Math.floor(steps / STEP)));
  } catch (err) {
    if (err instanceof EvaluationError) throw err;
    throw new EvaluationError(`${(err as Error).message}.`);
  }
}

function join(meter: Meter, separator: string, parts: readonly string[]): string {
  meter.room(parts.reduce((size, part) => size + part.length, separator.length * Math.max(parts.length - 1, 0)));
  return parts.join(separator);
}

const MAX_PARTS = 100_000;

function split(separator: string, text: string): Value {
  if (separator === '' && text.length <= MAX_PARTS) return list([...text]);
  const parts = separator === '' ? [] : text.split(separator, MAX_PARTS + 1);
  if (separator === '' || parts.length > MAX_PARTS)
    throw new EvaluationError(`split makes more than ${count(MAX_PARTS)} parts.`);
  return list(parts);
}

function withoutLineEnds(text: string): string {
  let end = text.length;
  while (end > 0 && '\r\n'.includes(text[end - 1]!)) end--;
  return text.slice(0, end);
}

export const text: Record<string, Fn> = {
  chomp: one(withoutLineEnds),
  lower: one((s) => eachRune(s, (c) => [...c.toLowerCase()][0]!)),
  upper: one((s) => eachRune(s, (c) => c.toUpperCase())),
  title: one((s) => s.replace(/(^|[^\p{L}\p{N}_'])(\p{L})/gu, (_all, a: string, b: string) => a + b.toUpperCase())),
  trimspace: one((s) => s.trim()),
  strrev: { least: 1, metered: (meter, s) => characters(meter, toText(s!)).reverse().join('') },
  trim: two((s, chars) => stripChars(s, chars, true, true)),
  trimprefix: two((s, prefix) => (s.startsWith(prefix) ? s.slice(prefix.length) : s)),
  trimsuffix: two((s, suffix) => (s.endsWith(suffix) ? s.slice(0, s.length - suffix.length) : s)),
  startswith: two((s, prefix) => s.startsWith(prefix)),
  endswith: two((s, suffix) => s.endsWith(suffix)),
  strcontains: two((s, part) => s.includes(part)),
  split: two(split),
  indent: {
    least: 2,
    metered: (meter, spaces, s) => {
      const n = toNumber(spaces!);
      if (!Number.isInteger(n) || n < 0 || n > 10_000) throw new EvaluationError('indent needs a number of spaces.');
      return join(meter, `\n${' '.repeat(n)}`, toText(s!).split('\n'));
    },
  },
  join: {
    least: 2,
    most: MANY,
    metered: (meter, separator, ...lists) => {
      const parts = lists.flatMap((l) => seq(l).items.map((item) => toText(item, 'element to join')));
      return join(meter, toText(separator!), parts);
    },
  },
  substr: {
    least: 3,
    metered: (meter, s, offset, length) => substr(meter, toText(s!), toNumber(offset!), toNumber(length!)),
  },
  replace: { least: 3, metered: (meter, s, find, by) => replace(meter, toText(s!), toText(find!), toText(by!)) },
  regex: {
    least: 2,
    metered: (meter, pattern, s) => {
      for (const match of found(meter, toText(pattern!), toText(s!))) return captured(match);
      throw new EvaluationError('The regular expression matches nothing in the string.');
    },
  },
  regexall: {
    least: 2,
    metered: (meter, pattern, s) => list([...found(meter, toText(pattern!), toText(s!))].map(captured)),
  },
  format: {
    least: 1,
    most: MANY,
    nulls: true,
    metered: (meter, spec, ...args) => format(meter, toText(spec!), args),
  },
  formatlist: {
    least: 1,
    most: MANY,
    nulls: true,
    metered: (meter, spec, ...args) => {
      const lists = args.map((arg) => (typeName(arg) === 'string' || !isSeq(arg) ? undefined : seq(arg).items));
      const lengths = new Set(lists.filter((l) => l !== undefined).map((l) => l.length));
      if (lengths.size > 1) throw new EvaluationError('The lists of formatlist differ in length.');
      const n = lengths.size === 0 ? 1 : [...lengths][0]!;
      let size = 0;
      const texts = Array.from({ length: n }, (_, i) => {
        meter.steps(args.length);
        const values = args.map((arg, j) => (lists[j] ? lists[j][i]! : arg));
        const text = format(meter, toText(spec!), values);
        size += text.length;
        meter.room(size);
        return text;
      });
      return list(texts);
    },
  },
};

const isSeq = (value: Value) => ['list', 'tuple', 'set'].includes(typeName(value));
