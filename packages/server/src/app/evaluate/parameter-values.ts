import { AppError, type Validation } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { choiceProblem, type ParameterRules, typeProblem, validationProblem } from '@ropewalk/rules/parameter';
import type { ParameterRow } from '../../db/queries/version-contents.ts';

export interface NameValue {
  name: string;
  value: string;
}

/** The values to check, as plain data for a worker thread. */
export interface Values {
  parameters: readonly ParameterRow[];
  given: readonly NameValue[];
  preset: Readonly<Record<string, string>>;
  /** The values of the last build. */
  last: readonly NameValue[] | undefined;
  trustLast: boolean;
  /** Whether to check only the given values, not those that a build would use. */
  onlyGiven: boolean;
}

export const judgeValues = (values: Values): readonly NameValue[] =>
  values.onlyGiven ? checked(values) : resolved(values);

/**
 * The values that a build uses: the given one, else the last build's (except for ephemeral parameters), else the
 * preset's, else the default. With `trustLast`, the last build's values are not checked, so that a running workspace
 * can always be stopped. Throws `invalid` that names every wrong parameter.
 */
function resolved({ parameters, given, preset, last, trustLast }: Values): NameValue[] {
  const values = new Map(given.map(({ name, value }) => [name, value]));
  const before = new Map((last ?? []).map(({ name, value }) => [name, value]));
  const wrong: Validation[] = [];
  const reject = (name: string, detail: string) => wrong.push({ field: name, detail });
  const known = new Set(parameters.map(({ name }) => name));
  for (const name of values.keys()) if (!known.has(name)) reject(name, `parameter "${name}" is not in the template`);
  if (values.size !== given.length) reject('rich_parameter_values', 'a parameter is given more than once');
  const all: NameValue[] = [];
  for (const parameter of parameters) {
    const { name } = parameter;
    const old = before.get(name);
    const chosen = ownValue(preset, name);
    const value = chosen ?? values.get(name) ?? (parameter.ephemeral ? undefined : old);
    if (value === undefined) {
      if (parameter.required) reject(name, `parameter "${name}" is required`);
      // stored, so that a later version with another default does not change this workspace
      else all.push({ name, value: parameter.default_value });
      continue;
    }
    if (!parameter.mutable && last && old !== undefined && old !== value) {
      reject(name, `parameter "${name}" is not mutable, so it can't be changed after the workspace was created`);
      continue;
    }
    const why = trustLast && value === old ? undefined : valueProblem(parameter, value, old);
    if (why) reject(name, why);
    all.push({ name, value });
  }
  rejectWrong(wrong);
  return all;
}

function rejectWrong(wrong: Validation[]): void {
  if (wrong.length === 0) return;
  throw new AppError('invalid', `Invalid parameters: ${wrong.map(({ detail }) => detail).join('; ')}.`, {
    validations: wrong,
  });
}

/**
 * Checks and returns the given values. Throws `invalid` for a value without a parameter, or one that does not fit its
 * parameter.
 */
function checked({ parameters, given }: Values): readonly NameValue[] {
  const wrong: Validation[] = [];
  for (const { name, value } of given) {
    const parameter = parameters.find((one) => one.name === name);
    const detail = parameter ? valueProblem(parameter, value, undefined) : `parameter "${name}" is not in the template`;
    if (detail) wrong.push({ field: name, detail });
  }
  rejectWrong(wrong);
  return given;
}

/** Why a value does not fit its parameter, or undefined. The provider applies the same rules again. */
function valueProblem(parameter: ParameterRow, value: string, old: string | undefined): string | undefined {
  const { name, type } = parameter;
  const rules = rulesOf(parameter);
  const choice = choiceProblem(rules, value);
  if (choice) return `parameter "${name}" ${choice}`;
  const broken = validationProblem(rules, value, old);
  if (broken?.own) return broken.own;
  const wrong = broken?.problem ?? typeProblem(type, value);
  return wrong && `parameter "${name}": ${wrong}`;
}

function rulesOf(parameter: ParameterRow): ParameterRules {
  const { validation_min: min, validation_max: max } = parameter;
  const { validation_regex: regex, validation_monotonic: monotonic } = parameter;
  const validated = min !== null || max !== null || regex !== '' || monotonic !== '';
  return {
    type: parameter.type,
    formType: parameter.form_type,
    options: parameter.options.map((option) => option.value),
    validation: validated
      ? { min: min ?? undefined, max: max ?? undefined, regex, monotonic, error: parameter.validation_error }
      : undefined,
  };
}
