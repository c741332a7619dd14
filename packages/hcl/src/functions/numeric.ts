import { count, EvaluationError, toNumber, toText, type Value } from '../values.ts';
import { type Fn, MANY } from './types.ts';

const one = (run: (n: number) => number): Fn => ({ least: 1, run: (a) => run(toNumber(a!)) });
const two = (run: (a: number, b: number) => number): Fn => ({
  least: 2,
  run: (a, b) => run(toNumber(a!), toNumber(b!)),
});
const extreme = (pick: (...n: number[]) => number): Fn => ({
  least: 1,
  most: MANY,
  run: (...all) => all.map((n) => toNumber(n)).reduce((a, b) => pick(a, b)),
});

/** The number of base 2 digits of the largest number. */
const MAX_DIGITS = 1024;
const DIGITS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

function parseInt_(text: string, base: number): number {
  if (!Number.isInteger(base) || base < 2 || base > 62) throw new EvaluationError('The base must be from 2 to 62.');
  const body = text.replace(/^[-+]/, '').replace(/^0+(?=.)/, '');
  if (body.length > MAX_DIGITS) throw new EvaluationError(`The number has more than ${count(MAX_DIGITS)} digits.`);
  const wrong = () => new EvaluationError(`${JSON.stringify(text)} is not a number of base ${base}.`);
  if (body === '') throw wrong();
  let out = 0n;
  for (const c of body) {
    const digit = DIGITS.indexOf(base <= 36 ? c.toLowerCase() : c);
    if (digit < 0 || digit >= base) throw wrong();
    out = out * BigInt(base) + BigInt(digit);
  }
  return Number(text.startsWith('-') ? -out : out);
}

export const numeric: Record<string, Fn> = {
  abs: one(Math.abs),
  ceil: one(Math.ceil),
  floor: one(Math.floor),
  signum: one(Math.sign),
  log: two((n, base) => Math.log(n) / Math.log(base)),
  pow: two((n, exponent) => n ** exponent),
  max: extreme(Math.max),
  min: extreme(Math.min),
  parseint: { least: 2, run: (text, base) => parseInt_(toText(text!), toNumber(base!)) satisfies Value },
};
