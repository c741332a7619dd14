import type { Body, Expr } from '../ast.ts';
import { force, Lazy, type Term } from '../lazy.ts';
import { Dict, EvaluationError, object, Seq, set, toNumber, toText, UNKNOWN, Unknown, type Value } from '../values.ts';
import { Elements, Fields } from './lazy-parts.ts';

export const MAX_INSTANCES = 1000;

export type Names = Readonly<Record<string, Term>>;

/** How often a block exists: once, by `count`, by `for_each`, or unknown. */
export type Expansion =
  | { kind: 'one' }
  | { kind: 'count'; count: number }
  | { kind: 'each'; entries: [string, Term][] }
  | { kind: 'unknown' };

/** The `each` of an instance, or the iterator of a dynamic block. */
export const pair = (key: Term, value: Term): Lazy =>
  new Fields(
    (name) => (name === 'key' ? key : name === 'value' ? value : undefined),
    () => ['key', 'value'],
  );

/** @throws EvaluationError if `count` or `for_each` is invalid */
export function expansionOf(body: Body, evaluate: (expr: Expr) => Term, address: string): Expansion {
  const count = body.attributes.get('count')?.value;
  const forEach = body.attributes.get('for_each')?.value;
  if (count) {
    const many = force(evaluate(count));
    if (many instanceof Unknown) return { kind: 'unknown' };
    const instances = toNumber(many, 'count');
    if (!Number.isInteger(instances) || instances < 0)
      throw new EvaluationError(`The count of ${address} must be a whole number from 0.`);
    limit(instances, address);
    return { kind: 'count', count: instances };
  }
  if (!forEach) return { kind: 'one' };
  const over = evaluate(forEach);
  const entries = over instanceof Lazy ? over.entries() : undefined;
  const each = entries
    ? entries.map(([key, value]): [string, Term] => [toText(key, 'key of for_each'), value])
    : forEachEntries(force(over), address);
  if (!each) return { kind: 'unknown' };
  limit(each.length, address);
  return { kind: 'each', entries: each };
}

function limit(instances: number, address: string): void {
  if (instances > MAX_INSTANCES)
    throw new EvaluationError(`${address} has more than ${MAX_INSTANCES.toLocaleString('en')} instances.`);
}

function forEachEntries(over: Value, address: string): [string, Term][] | undefined {
  if (over instanceof Unknown) return undefined;
  if (over instanceof Dict) return [...over.entries];
  if (!(over instanceof Seq))
    throw new EvaluationError(`The for_each of ${address} must be a map or a set of strings.`);
  const items = over.kind === 'set' ? over.items : (set(over.items) as Seq).items;
  if (items.some((item) => item instanceof Unknown)) return undefined;
  return items.map((item) => [toText(item, 'key of for_each'), item]);
}

/** The names and the part of the address that each instance adds. One instance stands for an unknown number. */
export function eachOf(expansion: Expansion): { suffix: string; names: Names }[] {
  switch (expansion.kind) {
    case 'one':
      return [{ suffix: '', names: {} }];
    case 'unknown':
      return [{ suffix: '', names: { count: object([['index', UNKNOWN]]), each: pair(UNKNOWN, UNKNOWN) } }];
    case 'count':
      return Array.from({ length: expansion.count }, (_, index) => ({
        suffix: `[${index}]`,
        names: { count: object([['index', index]]) },
      }));
    case 'each':
      return expansion.entries.map(([key, value]) => ({
        suffix: `[${JSON.stringify(key)}]`,
        names: { each: pair(key, value) },
      }));
  }
}

export function together(expansion: Expansion, instances: readonly Lazy[]): Term {
  if (expansion.kind === 'count') return new Elements(instances);
  if (expansion.kind !== 'each') return instances[0] ?? UNKNOWN;
  const byKey = new Map(expansion.entries.map(([key], i) => [key, instances[i]!]));
  return new Fields(
    (key) => byKey.get(key),
    () => byKey.keys(),
    (key) => `The block has no instance ${JSON.stringify(key)}.`,
  );
}
