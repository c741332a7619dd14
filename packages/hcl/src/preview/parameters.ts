import {
  choiceProblem,
  FORM_TYPES,
  formTypeProblem,
  formTypesFor,
  optionType,
  PARAMETER_TYPES,
  type ParameterRules,
  typeProblem,
  validationProblem,
  validationProblems,
} from '@ropewalk/rules/parameter';
import type { BlockInstance, BodyInstance } from '../program/instances.ts';
import type { Program } from '../program/program.ts';
import { Dict, EvaluationError, Seq, Unknown } from '../values.ts';
import { at, nullable, optional, optionalBool, optionalNumber, read, required } from './read.ts';
import { parameterValue } from './surroundings.ts';
import {
  error,
  type Notice,
  type NullableText,
  type PreviewedOption,
  type PreviewedParameter,
  type PreviewedValidation,
  type Styling,
} from './types.ts';

/** Finds the parameters of all modules. Problems that belong to no single parameter are added to `diagnostics`. */
export function findParameters(
  program: Program,
  inputs: Readonly<Record<string, string>>,
  diagnostics: Notice[],
): PreviewedParameter[] {
  const found: { parameter: PreviewedParameter; instance: BlockInstance }[] = [];
  for (const module of program.modules())
    for (const instance of module.dataInstances('coder_parameter')) {
      const parameter = previewParameter(instance, inputs, diagnostics);
      if (parameter) found.push({ parameter, instance });
    }
  const byName = Map.groupBy(found, ({ parameter }) => parameter.name);
  for (const [name, same] of byName) {
    if (same.length === 1) continue;
    const where = same.map(({ instance }) => `${instance.address} at ${instance.block.file}:${instance.block.line}`);
    const summary = `The template has ${same.length} parameters named ${JSON.stringify(name)}`;
    diagnostics.push(error(summary, `Give each its own name: ${where.join(', ')}.`));
  }
  return found
    .map(({ parameter }) => parameter)
    .sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : Number(a.name > b.name)));
}

/** Returns undefined for a parameter that no form can show. */
function previewParameter(
  instance: BlockInstance,
  inputs: Readonly<Record<string, string>>,
  diagnostics: Notice[],
): PreviewedParameter | undefined {
  const { body } = instance;
  const name = required(body, 'name');
  const type = optional(body, 'type') || 'string';
  const formType = optional(body, 'form_type');
  const wrong: Notice[] = [];
  if (typeof name !== 'string') wrong.push(name);
  if (!PARAMETER_TYPES.includes(type)) wrong.push(unlisted(body, 'type', type, PARAMETER_TYPES));
  if (formType !== '' && !FORM_TYPES.includes(formType)) wrong.push(unlisted(body, 'form_type', formType, FORM_TYPES));
  if (typeof name !== 'string' || wrong.length > 0) {
    diagnostics.push(...wrong);
    return undefined;
  }
  const notices: Notice[] = [];
  const options = previewOptions(body, notices);
  const problem = formTypeProblem(type, formType, options.declared > 0);
  if (problem && notices.length === 0)
    notices.push(
      options.complete
        ? error('The form type does not fit the parameter', `${capital(problem)}.`)
        : error('The options are not known before Terraform runs', `Without options, ${problem}.`),
    );
  const validations = previewValidations(body, notices);
  const isRequired = body.written('default') === undefined;
  const value = parameterValue(instance, inputs);
  const parameter: PreviewedParameter = {
    name,
    display_name: optional(body, 'display_name'),
    description: optional(body, 'description'),
    type,
    form_type: problem ? 'error' : formType || (formTypesFor(type, options.declared > 0)?.[0] ?? ''),
    styling: stylingOf(optional(body, 'styling')),
    mutable: optionalBool(body, 'mutable'),
    ephemeral: optionalBool(body, 'ephemeral'),
    required: isRequired,
    default_value: nullable(read(body, 'default')),
    value: nullable(value),
    icon: optional(body, 'icon'),
    order: optionalNumber(body, 'order') ?? 0,
    options: options.list,
    validations,
    diagnostics: notices,
  };
  // Terraform computes a default that is unknown here, and checks it then
  const computed = value instanceof Unknown && !isRequired;
  if (notices.length === 0 && !computed)
    notices.push(
      ...valueProblems(parameter, parameter.value.valid ? parameter.value.value : undefined, options.complete),
    );
  const typed = Object.hasOwn(inputs, name);
  const broken = typed ? undefined : brokenDefault(body);
  if (broken) notices.push(broken);
  const unusable =
    options.list.filter((option) => !option.value.valid).length + (options.declared - options.list.length);
  if (unusable > 0 && !options.reported)
    notices.push(
      error(
        `${unusable} of the parameter's options cannot be resolved`,
        'They depend on something that is not known before Terraform runs.',
      ),
    );
  if (isRequired && !typed) notices.push(error('Required parameter not provided', 'Enter a value.', 'required'));
  return parameter;
}

function unlisted(body: BodyInstance, name: string, value: string, allowed: readonly string[]): Notice {
  const choices = allowed.map((one) => JSON.stringify(one)).join(', ');
  return error(
    `Invalid ${JSON.stringify(name)} of ${body.address}`,
    `${JSON.stringify(value)} is not one of ${choices}.`,
  );
}

/** Why the default of a parameter can never be its value. */
function brokenDefault(body: BodyInstance): Notice | undefined {
  const fallback = read(body, 'default');
  if (fallback instanceof EvaluationError)
    return error('The default cannot be evaluated', at(body, 'default', fallback.message));
  if (fallback instanceof Seq || fallback instanceof Dict)
    return error('The default is not text', at(body, 'default', 'Write a list as text: jsonencode(["a", "b"]).'));
  return undefined;
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** The options of a parameter. One without a name or a value is left out, with a notice. */
function previewOptions(
  body: BodyInstance,
  notices: Notice[],
): { list: PreviewedOption[]; declared: number; reported: boolean; complete: boolean } {
  const { found: blocks, complete } = inner(body, 'option', notices);
  const list: PreviewedOption[] = [];
  let reported = false;
  for (const block of blocks) {
    const name = required(block, 'name');
    const value = read(block, 'value');
    if (typeof name !== 'string' || value === undefined) {
      reported = true;
      if (typeof name !== 'string') notices.push(name);
      else notices.push(error(`Missing "value" of ${block.address}`, 'Set value.'));
      continue;
    }
    list.push({
      name,
      description: optional(block, 'description'),
      value: nullable(value),
      icon: optional(block, 'icon'),
    });
  }
  return { list, declared: blocks.length, reported, complete };
}

/** The inner blocks of a type. Those whose number is unknown are left out: Terraform checks them in the build. */
function inner(body: BodyInstance, type: string, notices: Notice[]): ReturnType<BodyInstance['blocks']> {
  try {
    return body.blocks(type);
  } catch (err) {
    if (!(err instanceof EvaluationError)) throw err;
    notices.push(error(`The ${type} blocks cannot be evaluated`, err.message));
    return { found: [], complete: false };
  }
}

function previewValidations(body: BodyInstance, notices: Notice[]): PreviewedValidation[] {
  const { found: blocks } = inner(body, 'validation', notices);
  if (blocks.length > 1)
    notices.push(error('The parameter has several validation blocks', 'Put all rules into one validation block.'));
  return blocks.map((block) => {
    const text = (name: string) => {
      const { value, valid } = nullable(read(block, name));
      return valid ? value : null;
    };
    return {
      error: optional(block, 'error'),
      regex: text('regex'),
      min: optionalNumber(block, 'min') ?? null,
      max: optionalNumber(block, 'max') ?? null,
      monotonic: text('monotonic'),
    };
  });
}

function stylingOf(json: string): Styling {
  let data: unknown;
  try {
    data = JSON.parse(json || '{}');
  } catch {
    return {};
  }
  if (typeof data !== 'object' || data === null) return {};
  const { placeholder, disabled, label, mask_input: mask } = data as Record<string, unknown>;
  return {
    ...(typeof placeholder === 'string' ? { placeholder } : {}),
    ...(typeof disabled === 'boolean' ? { disabled } : {}),
    ...(typeof label === 'string' ? { label } : {}),
    ...(typeof mask === 'boolean' ? { mask_input: mask } : {}),
  };
}

const textOf = ({ value, valid }: NullableText): string => (valid ? value : '');

/**
 * Returns why a parameter does not accept a value. With a validation block a missing value counts as an empty text, as
 * in a build. If the options are not complete, the value may be another one.
 */
export function valueProblems(parameter: PreviewedParameter, value: string | undefined, complete = true): Notice[] {
  const { type, form_type: formType, options } = parameter;
  const each = optionType(type, formType);
  const seen = { name: new Set<string>(), value: new Set<string>() };
  for (const option of options)
    for (const part of ['name', 'value'] as const) {
      const text = part === 'name' ? option.name : textOf(option.value);
      const shown = JSON.stringify(text);
      if (seen[part].has(text))
        return [error(`Each option needs a unique ${part}`, `The option ${part} ${shown} is used twice.`)];
      seen[part].add(text);
    }
  for (const option of options) {
    const problem = typeProblem(each, textOf(option.value));
    if (problem) return [error('An option is not of the type of the parameter', `${capital(problem)}.`)];
  }
  const [rule] = parameter.validations;
  if (value === undefined && !rule) return [];
  const text = value ?? '';
  const validation = rule && {
    min: rule.min ?? undefined,
    max: rule.max ?? undefined,
    monotonic: rule.monotonic ?? '',
    regex: rule.regex ?? '',
    error: rule.error,
  };
  const rules: ParameterRules = {
    type,
    formType,
    options: complete ? options.map((one) => textOf(one.value)) : [],
    validation,
  };
  const choice = choiceProblem(rules, text);
  if (choice) return [error('The value is not one of the options', `The value ${choice}.`)];
  const [definition] = validation ? validationProblems(type, validation) : [];
  if (definition) return [error('The validation block is invalid', definition.problem)];
  const broken = validationProblem(rules, text);
  if (broken) return [error('The value does not pass the validation', broken.own || `${capital(broken.problem)}.`)];
  const problem = typeProblem(type, text);
  return problem ? [error(`The value is not of type ${type}`, `${capital(problem)}.`)] : [];
}
