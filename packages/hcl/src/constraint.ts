import type { Expr } from './ast.ts';
import { evaluate, newWork, spend, type Work } from './evaluate.ts';
import {
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
  typeName,
  Unknown,
  type Value,
} from './values.ts';

const unsuitable = (value: Value, wanted: string) =>
  new EvaluationError(`A ${wanted} is needed, not ${typeName(value)}.`);

/**
 * Converts a value to a type constraint, which is an expression such as `list(object({ a = optional(string) }))`. Null
 * and unknown values fit every type. Throws EvaluationError if the value does not fit or the constraint is invalid.
 * Defaults of optional attributes are evaluated within the limits of `work`.
 */
export function convert(value: Value, type: Expr, work: Work = newWork()): Value {
  if (type.kind === 'parens') return convert(value, type.inner, work);
  if (value === null || value instanceof Unknown) return value;
  spend(work, 1);
  if (type.kind === 'variable') {
    if (type.name === 'any') return value;
    if (type.name === 'string') return toText(value);
    if (type.name === 'number') return toNumber(value);
    if (type.name === 'bool') return toBool(value);
    // The legacy form: list and map without an element type.
    if (type.name === 'list' || type.name === 'set' || type.name === 'map')
      return collection(type.name, value, undefined, work);
  }
  if (type.kind === 'call' && type.args.length === 1) {
    const [of] = type.args as [Expr];
    if (type.name === 'list' || type.name === 'set' || type.name === 'map')
      return collection(type.name, value, of, work);
    if (type.name === 'tuple' && of.kind === 'tuple') {
      if (!(value instanceof Seq) || value.items.length !== of.items.length)
        throw unsuitable(value, `list of ${of.items.length}`);
      return tuple(value.items.map((item, i) => convert(item, of.items[i]!, work)));
    }
    if (type.name === 'object' && of.kind === 'object') return toObject(value, of.items, work);
  }
  throw new EvaluationError('Invalid type constraint.');
}

function collection(kind: 'list' | 'set' | 'map', value: Value, of: Expr | undefined, work: Work): Value {
  const each = (item: Value) => (of ? convert(item, of, work) : item);
  if (kind === 'map') {
    if (!(value instanceof Dict)) throw unsuitable(value, kind);
    return map([...value.entries].map(([key, item]) => [key, each(item)] as const));
  }
  if (!(value instanceof Seq)) throw unsuitable(value, kind);
  const items = value.items.map(each);
  return kind === 'set' ? set(items) : list(items);
}

function toObject(value: Value, attributes: { key: Expr; value: Expr }[], work: Work): Value {
  if (!(value instanceof Dict)) throw unsuitable(value, 'map');
  spend(work, attributes.length);
  return object(
    attributes.map(({ key, value: type }): [string, Value] => {
      if (key.kind !== 'literal' || typeof key.value !== 'string')
        throw new EvaluationError('Invalid type constraint.');
      const optional = type.kind === 'call' && type.name === 'optional' ? type.args : undefined;
      const wanted = optional?.[0] ?? type;
      const given = value.entries.get(key.value);
      if (given === undefined && !optional)
        throw new EvaluationError(`Attribute ${JSON.stringify(key.value)} is missing.`);
      const otherwise = optional?.[1];
      if ((given ?? null) === null && otherwise)
        return [key.value, convert(evaluate(otherwise, undefined, work), wanted, work)];
      return [key.value, convert(given ?? null, wanted, work)];
    }),
  );
}
