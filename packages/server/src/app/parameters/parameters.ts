import type { ParameterRow } from '../../db/queries/version-contents.ts';
import { judgeValues, type NameValue, type Values } from '../evaluate/parameter-values.ts';
import type { Answers } from './answers.ts';

/**
 * The values that a build uses: the given one, else the last build's (except for ephemeral parameters), else the
 * preset's, else the default. With `trustLast`, the last build's values are not checked, so that a running workspace
 * can always be stopped.
 * @throws AppError `invalid` that names every wrong parameter
 */
export function resolveParameters(
  answers: Answers,
  parameters: ParameterRow[],
  given: readonly NameValue[],
  preset: Readonly<Record<string, string>>,
  last: readonly NameValue[] | undefined,
  { trustLast = false } = {},
): NameValue[] {
  return [...judged(answers, { parameters, given, preset, last, trustLast, onlyGiven: false })];
}

/**
 * Checks only the given values. Other parameters may have none.
 * @throws AppError `invalid` for a value that does not fit its parameter or has none
 */
export function checkGiven(answers: Answers, parameters: ParameterRow[], given: NameValue[]): void {
  judged(answers, { parameters, given, preset: {}, last: undefined, trustLast: false, onlyGiven: true });
}

function judged(answers: Answers, values: Values): readonly NameValue[] {
  if (isCheap(values)) return judgeValues(values);
  return answers.of('judgeValues', values, (ctx, by) =>
    ctx.work.evaluation.run('judgeValues', values, { ...by, what: "Checking the parameters' values" }),
  );
}

/**
 * Limits the work on the main thread to a few milliseconds: characters of expressions, with repetitions written out.
 */
const MAX_WRITTEN = 1_000;
const MAX_REPEATED = 10_000;
/** Limits the comparisons on the main thread: characters times options and expression positions. */
const MAX_COMPARED = 200_000;
/** Finds the costly parts of short expressions: large classes of characters, in one case or both. */
const COSTLY = /\\[pPx]|[^ -~]/;

function isCheap({ parameters, given, preset, last = [] }: Values): boolean {
  const longest = new Map<string, number>();
  for (const [name, value] of [...given, ...last].map((one) => [one.name, one.value] as const))
    longest.set(name, Math.max(longest.get(name) ?? 0, value.length));
  for (const [name, value] of Object.entries(preset)) longest.set(name, Math.max(longest.get(name) ?? 0, value.length));
  let written = 0;
  let repeated = 0;
  let compared = 0;
  for (const { name, options, validation_regex: regex } of parameters) {
    const length = longest.get(name);
    if (length === undefined) continue;
    if (COSTLY.test(regex)) return false;
    // repetitions count as written out, and all of them count as nested
    const times = [...regex.matchAll(/\{(\d{0,5}),?(\d{0,5})/g)];
    const size = times.reduce((n, [, least, most]) => n * Math.max(Number(least), Number(most), 1), regex.length);
    written += regex.length;
    repeated += size;
    compared += size * length + options.length * (length + 1) + length;
  }
  return written <= MAX_WRITTEN && repeated <= MAX_REPEATED && compared <= MAX_COMPARED;
}
