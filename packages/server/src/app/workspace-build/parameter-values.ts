import { AppError, type Validation } from '@platform/kit';
import { choiceProblem, type ParameterRules, typeProblem, validationProblem } from '@platform/kit/parameter';
import type { ParameterRow } from '../../db/queries/version-contents.ts';
import type { NameValue } from './parameters.ts';

/** What is to be judged: plain data, for a worker thread. */
export interface Values {
  parameters: readonly ParameterRow[];
  given: readonly NameValue[];
  preset: Readonly<Record<string, string>>;
  /** Of the last build. */
  last: readonly NameValue[] | undefined;
  trustLast: boolean;
  /** Only what is given, not what a build would run with. */
  onlyGiven: boolean;
}

export const judgeValues = (values: Values): readonly NameValue[] =>
  values.onlyGiven ? checked(values) : resolved(values);

/**
 * The values a build runs with: what was given, else the last build's (ephemeral ones start over), else a preset's or
 * the default by leaving it to the template. Throws `invalid` naming every parameter that is wrong; with `trustLast`
 * those of the last build are none of them, since what runs must be able to end.
 */
function resolved({ parameters, given, preset, last, trustLast }: Values): NameValue[] {
  const values = new Map(given.map(({ name, value }) => [name, value]));
  const before = new Map((last ?? []).map(({ name, value }) => [name, value]));
  const wrong: Validation[] = [];
  const refuse = (name: string, detail: string) => wrong.push({ field: name, detail });
  const known = new Set(parameters.map(({ name }) => name));
  for (const name of values.keys()) if (!known.has(name)) refuse(name, `parameter "${name}" is not in the template`);
  if (values.size !== given.length) refuse('rich_parameter_values', 'a parameter is given more than once');
  const all: NameValue[] = [];
  for (const parameter of parameters) {
    const { name } = parameter;
    const old = before.get(name);
    // a parameter may have the name of what every object has, such as "constructor"
    const chosen = Object.hasOwn(preset, name) ? preset[name] : undefined;
    const value = chosen ?? values.get(name) ?? (parameter.ephemeral ? undefined : old);
    if (value === undefined) {
      if (parameter.required) refuse(name, `parameter "${name}" is required`);
      // the default is written down: a later version's other default does not change this workspace
      else all.push({ name, value: parameter.default_value });
      continue;
    }
    if (!parameter.mutable && last && old !== undefined && old !== value) {
      refuse(name, `parameter "${name}" is not mutable, so it can't be changed after the workspace was created`);
      continue;
    }
    const why = trustLast && value === old ? undefined : valueProblem(parameter, value, old);
    if (why) refuse(name, why);
    all.push({ name, value });
  }
  refuseWrong(wrong);
  return all;
}

function refuseWrong(wrong: Validation[]): void {
  if (wrong.length === 0) return;
  throw new AppError('invalid', `Invalid parameters: ${wrong.map(({ detail }) => detail).join('; ')}.`, {
    validations: wrong,
  });
}

/** Those that are given. Throws `invalid` where one is of no parameter, or does not fit its own. */
function checked({ parameters, given }: Values): readonly NameValue[] {
  const wrong: Validation[] = [];
  for (const { name, value } of given) {
    const parameter = parameters.find((one) => one.name === name);
    const detail = parameter ? valueProblem(parameter, value, undefined) : `parameter "${name}" is not in the template`;
    if (detail) wrong.push({ field: name, detail });
  }
  refuseWrong(wrong);
  return given;
}

/** Why a value does not fit its parameter, or undefined. The provider checks again, by the same rules. */
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
