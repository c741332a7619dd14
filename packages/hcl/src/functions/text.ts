import { EvaluationError, list, map, toNumber, toText, tuple, typeName, type Value } from '../values.ts';
import { format } from './format.ts';
import { allMatches, fromRe2 } from './regex.ts';
import { type Fn, MANY, seq } from './types.ts';

const one = (run: (text: string) => Value): Fn => ({ least: 1, run: (a) => run(toText(a!)) });
const two = (run: (text: string, other: string) => Value): Fn => ({
  least: 2,
  run: (a, b) => run(toText(a!), toText(b!)),
});

/** What `regex` gives for one match: the text, the groups in order, or the groups by name. */
function captured(match: RegExpMatchArray): Value {
  const text = (part: string | undefined): Value => part ?? null;
  if (match.groups) return map(Object.entries(match.groups).map(([k, v]) => [k, text(v)] as const));
  return match.length === 1 ? match[0]! : tuple(match.slice(1).map(text));
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

/** Case changes character by character, as Terraform has it: what would become several characters stays. */
function eachRune(text: string, change: (c: string) => string): string {
  return Array.from(text, (c) => {
    const changed = change(c);
    return [...changed].length === 1 ? changed : c;
  }).join('');
}

const graphemes = new Intl.Segmenter('und', { granularity: 'grapheme' });
export const characters = (text: string): string[] => Array.from(graphemes.segment(text), (s) => s.segment);

function substr(text: string, offset: number, length: number): string {
  const all = characters(text);
  const from = offset < 0 ? all.length + offset : offset;
  if (from < 0 || length === 0) return '';
  return all.slice(from, length < 0 ? all.length : from + length).join('');
}

/** Go's replacement template: `$1`, `${name}`, `$$`. */
function expand(template: string, match: RegExpMatchArray): string {
  return template.replace(/\$(\$|\w+|\{\w+\})/g, (_all, word: string) => {
    if (word === '$') return '$';
    const name = word.replace(/[{}]/g, '');
    return (/^\d+$/.test(name) ? match[Number(name)] : match.groups?.[name]) ?? '';
  });
}

function replace(text: string, find: string, by: string): string {
  if (find.length <= 1 || !find.startsWith('/') || !find.endsWith('/')) return text.replaceAll(find, () => by);
  let out = '';
  let last = 0;
  for (const match of allMatches(fromRe2(find.slice(1, -1), 'g'), text)) {
    out += text.slice(last, match.index) + expand(by, match);
    last = match.index! + match[0].length;
  }
  return out + text.slice(last);
}

export const text: Record<string, Fn> = {
  chomp: one((s) => s.replace(/[\r\n]+$/, '')),
  lower: one((s) => eachRune(s, (c) => [...c.toLowerCase()][0]!)),
  upper: one((s) => eachRune(s, (c) => c.toUpperCase())),
  title: one((s) => s.replace(/(^|[^\p{L}\p{N}_'])(\p{L})/gu, (_all, a: string, b: string) => a + b.toUpperCase())),
  trimspace: one((s) => s.trim()),
  strrev: one((s) => characters(s).reverse().join('')),
  trim: two((s, chars) => stripChars(s, chars, true, true)),
  trimprefix: two((s, prefix) => (s.startsWith(prefix) ? s.slice(prefix.length) : s)),
  trimsuffix: two((s, suffix) => (s.endsWith(suffix) ? s.slice(0, s.length - suffix.length) : s)),
  startswith: two((s, prefix) => s.startsWith(prefix)),
  endswith: two((s, suffix) => s.endsWith(suffix)),
  strcontains: two((s, part) => s.includes(part)),
  split: two((separator, s) => list(separator === '' ? [...s] : s.split(separator))),
  indent: {
    least: 2,
    run: (spaces, s) => {
      const n = toNumber(spaces!);
      if (!Number.isInteger(n) || n < 0 || n > 10_000) throw new EvaluationError('indent needs a number of spaces.');
      return toText(s!).replaceAll('\n', `\n${' '.repeat(n)}`);
    },
  },
  join: {
    least: 2,
    most: MANY,
    run: (separator, ...lists) =>
      lists.flatMap((l) => seq(l).items.map((item) => toText(item, 'element to join'))).join(toText(separator!)),
  },
  substr: { least: 3, run: (s, offset, length) => substr(toText(s!), toNumber(offset!), toNumber(length!)) },
  replace: { least: 3, run: (s, find, by) => replace(toText(s!), toText(find!), toText(by!)) },
  regex: {
    least: 2,
    run: (pattern, s) => {
      const [match] = allMatches(fromRe2(toText(pattern!), 'g'), toText(s!));
      if (!match) throw new EvaluationError('The regular expression matches nothing in the string.');
      return captured(match);
    },
  },
  regexall: {
    least: 2,
    run: (pattern, s) => list(allMatches(fromRe2(toText(pattern!), 'g'), toText(s!)).map(captured)),
  },
  format: { least: 1, most: MANY, nulls: true, run: (spec, ...args) => format(toText(spec!), args) },
  formatlist: {
    least: 1,
    most: MANY,
    nulls: true,
    run: (spec, ...args) => {
      const lists = args.map((arg) => (typeName(arg) === 'string' || !isSeq(arg) ? undefined : seq(arg).items));
      const lengths = new Set(lists.filter((l) => l !== undefined).map((l) => l.length));
      if (lengths.size > 1) throw new EvaluationError('The lists of formatlist differ in length.');
      const n = lengths.size === 0 ? 1 : [...lengths][0]!;
      return list(
        Array.from({ length: n }, (_, i) =>
          format(
            toText(spec!),
            args.map((arg, j) => (lists[j] ? lists[j][i]! : arg)),
          ),
        ),
      );
    },
  },
};

const isSeq = (value: Value) => ['list', 'tuple', 'set'].includes(typeName(value));
