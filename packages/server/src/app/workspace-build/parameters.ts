import type { Db } from '../../db/connect.ts';
import type { Answers } from '../work/answers.ts';
import { judgeValues, type Values } from './parameter-values.ts';

export interface NameValue {
  name: string;
  value: string;
}

export interface ParameterRow {
  name: string;
  display_name: string;
  description: string;
  type: 'string' | 'number' | 'bool' | 'list(string)';
  form_type: string;
  mutable: boolean;
  ephemeral: boolean;
  required: boolean;
  default_value: string;
  icon: string;
  options: { name: string; description: string; value: string; icon: string }[];
  validation_regex: string;
  validation_min: number | null;
  validation_max: number | null;
  validation_monotonic: string;
  validation_error: string;
  display_order: number;
}

export async function versionParameters(db: Db, versionId: string): Promise<ParameterRow[]> {
  return db<ParameterRow[]>`SELECT * FROM template_version_parameters WHERE template_version_id = ${versionId}
    ORDER BY display_order, lower(name), name`;
}

/**
 * The values a build runs with: what was given, else the last build's (ephemeral ones start over), else a preset's or
 * the default by leaving it to the template. Throws `invalid` naming every parameter that is wrong; with `trustLast`
 * those of the last build are none of them, since what runs must be able to end.
 */
export function resolveParameters(
  answers: Answers,
  parameters: ParameterRow[],
  given: NameValue[],
  preset: Record<string, string>,
  last: NameValue[] | undefined,
  { trustLast = false } = {},
): NameValue[] {
  return [...judged(answers, { parameters, given, preset, last, trustLast, onlyGiven: false })];
}

/** Throws `invalid` where a value is given for no parameter, or does not fit its own. Those that are not given are well. */
export function checkGiven(answers: Answers, parameters: ParameterRow[], given: NameValue[]): void {
  judged(answers, { parameters, given, preset: {}, last: undefined, trustLast: false, onlyGiven: true });
}

function judged(answers: Answers, values: Values): readonly NameValue[] {
  if (isCheap(values)) return judgeValues(values);
  return answers.of('judgeValues', values, (ctx, by) =>
    ctx.work.evaluation.run('judgeValues', values, { ...by, what: "Checking the parameters' values" }),
  );
}

/** What is done on the main thread, within milliseconds: characters of expressions, with and without their repetitions. */
const MOST_WRITTEN = 1_000;
const MOST_REPEATED = 10_000;
/** Characters that are compared, with each option and each place in an expression. */
const MOST_COMPARED = 200_000;
/** What makes a short expression costly: large classes of characters, in one case or both. */
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
    // repetitions are written out, those within each other as often as all of them together
    const times = [...regex.matchAll(/\{(\d{0,5}),?(\d{0,5})/g)];
    const size = times.reduce((n, [, least, most]) => n * Math.max(Number(least), Number(most), 1), regex.length);
    written += regex.length;
    repeated += size;
    compared += size * length + options.length * (length + 1) + length;
  }
  return written <= MOST_WRITTEN && repeated <= MOST_REPEATED && compared <= MOST_COMPARED;
}
