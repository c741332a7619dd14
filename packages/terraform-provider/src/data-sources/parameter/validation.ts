import {
  choiceProblem,
  optionType,
  PARAMETER_TYPES,
  type ParameterRules,
  type ParameterValidation,
  typeProblem,
  validationProblem,
  validationProblems,
} from '@ropewalk/rules/parameter';
import type { Diagnostics, Path } from '../../diagnostics.ts';
import { blocks, bool, isUnknown, num, type Obj, str } from '../../value.ts';
import { formTypeError, formTypeOf } from './form-type.ts';

const given = (config: Obj, name: string) => config[name] !== null && config[name] !== undefined;

function checkRules(config: Obj, rule: Obj, diagnostics: Diagnostics): void {
  const wrong = (name: string, detail: string) =>
    diagnostics.error(['validation', 0, name], 'Invalid validation', detail);
  for (const name of ['min', 'max', 'monotonic'])
    if (given(rule, 'regex') && given(rule, name)) wrong('regex', `Set either regex or ${name}, not both.`);
  for (const { argument, problem } of validationProblems(str(config, 'type'), validationOf(rule)))
    if (argument !== 'error' || !isUnknown(rule['error'])) wrong(argument, problem);
}

/** Checks the parameter's definition. Accepts configurations with unknown parts, before defaults apply. */
export function checkDefinition(config: Obj, diagnostics: Diagnostics): void {
  const type = str(config, 'type');
  if (!PARAMETER_TYPES.includes(type)) return; // Unknown, or already rejected by the schema.
  const form = formTypeError(config);
  if (form) diagnostics.error(['form_type'], 'Invalid form_type', `form_type: ${form}.`);
  if (bool(config, 'ephemeral')) {
    if (config['mutable'] === false)
      diagnostics.error(['mutable'], 'Immutable ephemeral parameter', 'An ephemeral parameter must be mutable.');
    if (config['default'] === null)
      diagnostics.error(['default'], 'Ephemeral parameter without default', 'An ephemeral parameter needs a default.');
  }
  for (const rule of blocks(config, 'validation')) checkRules(config, rule, diagnostics);

  const each = optionType(type, formTypeOf(config) ?? '');
  const seen = { name: new Set<string>(), value: new Set<string>() };
  for (const [i, option] of blocks(config, 'option').entries()) {
    for (const part of ['name', 'value'] as const) {
      const text = option[part];
      if (typeof text !== 'string') continue;
      if (seen[part].has(text))
        diagnostics.error(
          ['option', i, part],
          `Duplicate option ${part}`,
          `Option ${part} ${JSON.stringify(text)} is used twice.`,
        );
      seen[part].add(text);
    }
    const wrong = typeof option['value'] === 'string' ? typeProblem(each, option['value']) : undefined;
    if (wrong) diagnostics.error(['option', i, 'value'], 'Invalid option', `${wrong}.`);
  }
}

const validationOf = (rule: Obj): ParameterValidation => ({
  min: num(rule, 'min'),
  max: num(rule, 'max'),
  monotonic: str(rule, 'monotonic'),
  regex: str(rule, 'regex'),
  error: str(rule, 'error'),
});

function rulesOf(config: Obj): ParameterRules {
  const [rule] = blocks(config, 'validation');
  return {
    type: str(config, 'type'),
    formType: formTypeOf(config) ?? '',
    options: blocks(config, 'option').map((option) => str(option, 'value')),
    validation: rule && validationOf(rule),
  };
}

/**
 * Checks a value, chosen or default, against options, validation and type. With a validation block a missing value
 * counts as an empty text, which must pass, too.
 */
export function checkValue(
  config: Obj,
  value: string | undefined,
  previous: string | undefined,
  at: Path,
  diagnostics: Diagnostics,
): void {
  const rules = rulesOf(config);
  if (value === undefined && !rules.validation) return;
  const text = value ?? '';
  const choice = choiceProblem(rules, text);
  const broken = choice === undefined ? validationProblem(rules, text, previous) : undefined;
  const problem = choice ?? broken?.problem ?? typeProblem(rules.type, text);
  if (problem === undefined) return;
  const name = JSON.stringify(str(config, 'name'));
  const missing = value === undefined ? ' Nobody entered a value and the parameter has no default.' : '';
  diagnostics.error(
    at,
    `Invalid value of parameter ${name}`,
    `${broken?.own ? `${broken.own}\n` : ''}${problem}.${missing}`,
  );
}
