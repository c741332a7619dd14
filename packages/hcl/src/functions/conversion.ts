import {
  Dict,
  EvaluationError,
  list,
  map,
  Seq,
  set,
  toBool,
  toNumber,
  toText,
  typeName,
  type Value,
} from '../values.ts';
import type { Fn } from './types.ts';

const to = (run: (value: Exclude<Value, null>) => Value): Fn => ({
  least: 1,
  nulls: true,
  structural: true,
  run: (v) => (v === null ? null : run(v as Exclude<Value, null>)),
});

const items = (value: Value): readonly Value[] => {
  if (value instanceof Seq) return value.items;
  throw new EvaluationError(`A ${typeName(value)} is not a list.`);
};

export const conversion: Record<string, Fn> = {
  tostring: to((v) => toText(v)),
  tonumber: to((v) => toNumber(v)),
  tobool: to((v) => toBool(v)),
  tolist: to((v) => list(items(v))),
  toset: to((v) => set(items(v))),
  tomap: to((v) => {
    if (!(v instanceof Dict)) throw new EvaluationError(`A ${typeName(v)} is not a map.`);
    return map(v.entries);
  }),
  // Values have no sensitive mark here. Their holders keep them out of logs.
  sensitive: to((v) => v),
  nonsensitive: to((v) => v),
};
