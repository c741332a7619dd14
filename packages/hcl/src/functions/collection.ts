import {
  canonical,
  compareText,
  count,
  Dict,
  EvaluationError,
  list,
  map,
  object,
  Seq,
  set,
  toBool,
  toNumber,
  toText,
  tuple,
  Unknown,
  unifyAll,
  type Value,
} from '../values.ts';
import { characters } from './text.ts';
import { dict, type Fn, MANY, type Meter, seq } from './types.ts';

const MAX_ITEMS = 100_000;

/** The same kind of sequence with other elements. A set has no order, so it becomes a list. */
const alike = (source: Seq, items: readonly Value[]): Seq =>
  source.kind === 'tuple' ? tuple(items) : new Seq('list', items);

function distinct(items: readonly Value[]): Value[] {
  const seen = new Set<string>();
  return items.filter((item) => {
    const key = canonical(item);
    return seen.has(key) ? false : seen.add(key);
  });
}

const flat = (value: Value): Value[] => (value instanceof Seq ? value.items.flatMap(flat) : [value]);

function setOperation(first: Value | undefined, rest: Value[], keep: (inOthers: number) => boolean): Value {
  const others = new Map<string, number>();
  for (const other of rest)
    for (const key of set(seq(other).items).items.map(canonical)) others.set(key, (others.get(key) ?? 0) + 1);
  return set(set(seq(first).items).items.filter((item) => keep(others.get(canonical(item)) ?? 0)));
}

function range(args: Value[]): Value {
  const n = args.map((arg) => toNumber(arg));
  const [from, to] = n.length === 1 ? [0, n[0]!] : [n[0]!, n[1]!];
  const step = n[2] ?? (from <= to ? 1 : -1);
  if (step === 0 || (to > from && step < 0) || (to < from && step > 0))
    throw new EvaluationError('The step of range leads away from its end.');
  const out: number[] = [];
  for (let at = from; step > 0 ? at < to : at > to; at += step) {
    if (out.length >= 1024) throw new EvaluationError('The function range returns at most 1024 numbers.');
    out.push(at);
  }
  return list(out);
}

function setProduct(meter: Meter, sets: Seq[]): Value {
  const rows = sets.reduce((product, one) => product * one.items.length, 1);
  if (rows * sets.length > MAX_ITEMS)
    throw new EvaluationError(`The product of the sets has more than ${count(MAX_ITEMS)} elements.`);
  meter.steps(rows * sets.length);
  const made = Array.from({ length: rows }, (_, row) => {
    const items: Value[] = [];
    // The last set changes with each row.
    for (let i = sets.length - 1, at = row; i >= 0; i--) {
      const from = sets[i]!.items;
      items.unshift(from[at % from.length]!);
      at = Math.floor(at / from.length);
    }
    return tuple(items);
  });
  return sets.every((s) => s.kind === 'set') ? set(made) : list(made);
}

/** Returns the index of a value in a list, or -1. */
function indexOf(items: readonly Value[], wanted: Value): number {
  const key = canonical(wanted);
  return items.findIndex((item) => canonical(item) === key);
}

function slice(source: Seq, from: number, to: number): Value {
  if (source.kind === 'set') throw new EvaluationError('Cannot slice a set.');
  if (from < 0 || to > source.items.length || from > to || !Number.isInteger(from) || !Number.isInteger(to))
    throw new EvaluationError(`Invalid slice from ${from} to ${to} of a list of ${source.items.length}.`);
  return alike(source, source.items.slice(from, to));
}

export const collection: Record<string, Fn> = {
  length: {
    least: 1,
    structural: true,
    constant: true,
    metered: (meter, v) => {
      if (typeof v === 'string') return characters(meter, v).length;
      return v instanceof Dict ? v.entries.size : seq(v).items.length;
    },
  },
  alltrue: { least: 1, run: (v) => seq(v).items.every((item) => item !== null && toBool(item)) },
  anytrue: { least: 1, run: (v) => seq(v).items.some((item) => item !== null && toBool(item)) },
  chunklist: {
    least: 2,
    structural: true,
    run: (v, size) => {
      const n = toNumber(size!);
      if (!Number.isInteger(n) || n < 0) throw new EvaluationError('The size of a chunk must be a whole number.');
      const { items } = seq(v);
      if (n === 0) return list([list(items)]);
      return list(Array.from({ length: Math.ceil(items.length / n) }, (_, i) => list(items.slice(i * n, i * n + n))));
    },
  },
  coalesce: {
    least: 1,
    most: MANY,
    nulls: true,
    run: (...args) => {
      const found = unifyAll(args).find((arg) => arg !== null && arg !== '');
      if (found === undefined) throw new EvaluationError('All arguments of coalesce are null or empty.');
      return found;
    },
  },
  coalescelist: {
    least: 1,
    most: MANY,
    nulls: true,
    structural: true,
    constant: true,
    run: (...args) => {
      const found = args.find((arg) => arg instanceof Seq && arg.items.length > 0);
      if (found === undefined) throw new EvaluationError('All arguments of coalescelist are null or empty.');
      return found;
    },
  },
  compact: { least: 1, run: (v) => list(seq(v).items.filter((item) => item !== null && item !== '')) },
  concat: {
    least: 1,
    most: MANY,
    structural: true,
    run: (...args) => {
      const all = args.map((arg) => seq(arg));
      const items = all.flatMap((one) => [...one.items]);
      return all.every((one) => one.kind === 'list') ? list(items) : tuple(items);
    },
  },
  contains: { least: 2, nulls: true, run: (v, wanted) => indexOf(seq(v).items, wanted!) >= 0 },
  distinct: { least: 1, run: (v) => list(distinct(seq(v).items)) },
  element: {
    least: 2,
    structural: true,
    constant: true,
    run: (v, at) => {
      const { items, kind } = seq(v);
      if (kind === 'set') throw new EvaluationError('Cannot index a set.');
      if (items.length === 0) throw new EvaluationError('An empty list has no element.');
      const n = toNumber(at!);
      if (!Number.isInteger(n) || n < 0) throw new EvaluationError('The index must be a whole number from 0.');
      return items[n % items.length]!;
    },
  },
  flatten: { least: 1, structural: true, run: (v) => tuple(seq(v).items.flatMap(flat)) },
  index: {
    least: 2,
    run: (v, wanted) => {
      const at = indexOf(seq(v).items, wanted!);
      if (at < 0) throw new EvaluationError('The list does not contain this element.');
      return at;
    },
  },
  keys: {
    least: 1,
    structural: true,
    run: (v) => {
      const names = [...dict(v).entries.keys()];
      return dict(v).kind === 'map' ? list(names) : tuple(names);
    },
  },
  values: {
    least: 1,
    structural: true,
    run: (v) => {
      const all = [...dict(v).entries.values()];
      return dict(v).kind === 'map' ? list(all) : tuple(all);
    },
  },
  lookup: {
    least: 2,
    most: 3,
    nulls: true,
    structural: true,
    constant: true,
    run: (v, key, fallback) => {
      const found = dict(v).entries.get(toText(key!));
      if (found !== undefined) return found;
      if (fallback === undefined) throw new EvaluationError(`The map has no key ${JSON.stringify(key)}.`);
      return fallback;
    },
  },
  matchkeys: {
    least: 3,
    run: (v, keys, wanted) => {
      const [all, by, set_] = [seq(v).items, seq(keys).items, new Set(seq(wanted).items.map(canonical))];
      if (all.length !== by.length) throw new EvaluationError('The lists of matchkeys differ in length.');
      return list(all.filter((_, i) => set_.has(canonical(by[i]!))));
    },
  },
  merge: {
    least: 0,
    most: MANY,
    nulls: true,
    structural: true,
    run: (...args) => {
      const all = args.filter((arg) => arg !== null).map((arg) => dict(arg));
      const entries = all.flatMap((one) => [...one.entries]);
      return all.length > 0 && all.every((one) => one.kind === 'map') ? map(entries) : object(entries);
    },
  },
  one: {
    least: 1,
    structural: true,
    constant: true,
    run: (v) => {
      const { items } = seq(v);
      if (items.length > 1) throw new EvaluationError('The function one needs a list with at most one element.');
      return items[0] ?? null;
    },
  },
  range: { least: 1, most: 3, run: (...args) => range(args) },
  reverse: {
    least: 1,
    structural: true,
    run: (v) => alike(seq(v), [...seq(v).items].reverse()),
  },
  setintersection: {
    least: 1,
    most: MANY,
    run: (first, ...rest) => setOperation(first, rest, (n) => n === rest.length),
  },
  setsubtract: { least: 2, run: (first, ...rest) => setOperation(first, rest, (n) => n === 0) },
  setunion: { least: 1, most: MANY, run: (...args) => set(args.flatMap((arg) => [...seq(arg).items])) },
  setproduct: {
    least: 1,
    most: MANY,
    metered: (meter, ...args) =>
      setProduct(
        meter,
        args.map((arg) => seq(arg)),
      ),
  },
  slice: { least: 3, structural: true, run: (v, from, to) => slice(seq(v), toNumber(from!), toNumber(to!)) },
  sort: {
    least: 1,
    run: (v) =>
      list(
        seq(v)
          .items.map((item) => toText(item))
          .sort(compareText),
      ),
  },
  sum: {
    least: 1,
    run: (v) => {
      const { items } = seq(v);
      if (items.length === 0) throw new EvaluationError('An empty list has no sum.');
      return items.reduce<number>((sum, item) => sum + toNumber(item), 0);
    },
  },
  transpose: {
    least: 1,
    run: (v) => {
      const out = new Map<string, string[]>();
      for (const [key, items] of dict(v).entries)
        for (const item of seq(items).items) {
          const name = toText(item);
          const keys = out.get(name);
          if (keys) keys.push(key);
          else out.set(name, [key]);
        }
      return map([...out].map(([k, keys]) => [k, list(keys.sort(compareText))] as const));
    },
  },
  zipmap: {
    least: 2,
    structural: true,
    run: (keys, values) => {
      const [names, items] = [seq(keys).items, seq(values)];
      if (names.length !== items.items.length) throw new EvaluationError('The lists of zipmap differ in length.');
      const entries = names.map((name, i) => {
        if (name instanceof Unknown) throw new EvaluationError('A key of zipmap is not known yet.');
        return [toText(name), items.items[i]!] as const;
      });
      return items.kind === 'tuple' ? object(entries) : map(entries);
    },
  },
};
