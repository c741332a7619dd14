/**
 * The parameters of a template as a form shows them: a plain list of states. Here the browser evaluates them by the
 * server's own rules. live.ts makes the same list from the evaluation of the server while a person types.
 */
import type { Preset, TemplateVersionParameter } from '@ropewalk/contract';
import { choiceProblem, type ParameterRules, typeProblem, validationProblem } from '@ropewalk/rules/parameter';

export type FormType = Exclude<TemplateVersionParameter['form_type'], ''>;

export interface ParameterState {
  name: string;
  label: string;
  /** Markdown. */
  description: string;
  icon: string;
  type: TemplateVersionParameter['type'];
  formType: FormType;
  options: readonly { name: string; value: string; description: string; icon: string }[];
  required: boolean;
  /** Applies to one build only. */
  ephemeral: boolean;
  /** Cannot change after the workspace was created. */
  immutable: boolean;
  min: number | undefined;
  max: number | undefined;
  defaultValue: string;
  value: string;
  /** The value of the previous build. */
  previous: string | undefined;
  /** Whether the form took the value from another workspace of the person, and it is not the template's default. */
  fromLast: boolean;
  /** Why the value cannot be changed here. */
  locked: string | undefined;
  /** What is wrong with the value. */
  problem: string | undefined;
  /** Whether the person changed the value, so that its problem is worth showing. */
  touched: boolean;
  /** Whether Terraform computes the value in the build, unless the person enters one. */
  later?: boolean | undefined;
  styling?: Styling | undefined;
}

/** Details of a control that the template's author chose. */
export interface Styling {
  placeholder?: string | undefined;
  disabled?: boolean | undefined;
  /** Next to a checkbox or a switch. */
  label?: string | undefined;
  /** Whether to hide what the person types, like a password. */
  masked?: boolean | undefined;
}

export interface NameValue {
  name: string;
  value: string;
}

/** Where the first values come from. Later sources win: defaults, previous choices, the preset, the link. */
export interface Sources {
  /** The values of the workspace's last build. Immutable parameters keep them. */
  previous?: readonly NameValue[] | undefined;
  /** The person's values in other workspaces of the template. */
  autofill?: readonly NameValue[] | undefined;
  preset?: Preset | undefined;
  /** Values in the address. */
  link?: readonly NameValue[] | undefined;
}

export interface Evaluated {
  definition: TemplateVersionParameter;
  state: ParameterState;
}

const toMap = (values: readonly NameValue[] = []) => new Map(values.map(({ name, value }) => [name, value]));

/** The states with which a form starts. */
export function startParameters(definitions: readonly TemplateVersionParameter[], sources: Sources): Evaluated[] {
  const previous = sources.previous && toMap(sources.previous);
  const autofill = toMap(sources.autofill);
  const link = toMap(sources.link);
  const preset = presetValues(sources.preset);
  return definitions.map((definition) => {
    const { name } = definition;
    const old = previous?.get(name);
    const kept = definition.ephemeral ? undefined : old;
    const fixed = previous !== undefined && old !== undefined && !definition.mutable;
    const chosen = fixed ? old : (preset.get(name) ?? link.get(name) ?? kept ?? autofill.get(name));
    const value = chosen ?? definition.default_value;
    const state: ParameterState = {
      name,
      label: definition.display_name || name,
      description: definition.description,
      icon: definition.icon,
      type: definition.type,
      formType: formTypeOf(definition),
      options: definition.options ?? [],
      required: definition.required,
      ephemeral: definition.ephemeral,
      immutable: !definition.mutable,
      min: definition.validation_min,
      max: definition.validation_max,
      defaultValue: definition.default_value,
      value,
      previous: old,
      fromLast: isFromLast(sources, name, value, definition.default_value),
      locked: fixed
        ? 'Cannot be changed after the workspace was created.'
        : preset.has(name)
          ? `Set by the preset ${sources.preset!.Name}.`
          : undefined,
      problem: undefined,
      touched: link.has(name) || autofill.has(name),
    };
    return { definition, state: { ...state, problem: problemOf(definition, state) } };
  });
}

/** Whether a value is one that the person gave in another workspace, which nothing closer to this form replaced. */
export function isFromLast(sources: Sources, name: string, value: string, defaultValue: string): boolean {
  const closer = [...(sources.previous ?? []), ...(sources.link ?? [])];
  return (
    value !== defaultValue &&
    (sources.autofill ?? []).some((last) => last.name === name && last.value === value) &&
    !presetValues(sources.preset).has(name) &&
    !closer.some((other) => other.name === name)
  );
}

export const presetValues = (preset: Preset | undefined) =>
  new Map((preset?.Parameters ?? []).map(({ Name, Value }) => [Name, Value]));

/** The list after a person changed one value. All other states stay the same objects. */
export function changeParameter(list: readonly Evaluated[], name: string, value: string): Evaluated[] {
  return list.map((one) => {
    if (one.state.name !== name || one.state.locked) return one;
    const state = { ...one.state, value, touched: true, fromLast: false };
    return { ...one, state: { ...state, problem: problemOf(one.definition, state) } };
  });
}

/** The list with another preset: its values are set and locked, and those of the preset before are free again. */
export function applyPreset(list: readonly Evaluated[], from: Preset | undefined, to: Preset | undefined): Evaluated[] {
  const before = presetValues(from);
  const after = presetValues(to);
  return list.map((one) => {
    const { name } = one.state;
    const value = after.get(name);
    if (value === undefined && !before.has(name)) return one;
    const state: ParameterState = {
      ...one.state,
      value: value ?? one.state.value,
      locked: value === undefined ? undefined : `Set by the preset ${to!.Name}.`,
      touched: true,
      fromLast: false,
    };
    return { ...one, state: { ...state, problem: problemOf(one.definition, state) } };
  });
}

/** The values to send: all but those that the person left at the default of an ephemeral parameter. */
export function valuesOf(states: readonly ParameterState[]): NameValue[] {
  return states
    .filter((state) => !(state.ephemeral && state.value === state.defaultValue))
    .filter((state) => state.formType !== 'error' && !state.later)
    .map(({ name, value }) => ({ name, value }));
}

/** The control of a parameter whose template names none. */
export function formTypeOf({
  form_type: formType,
  type,
  options,
}: Pick<TemplateVersionParameter, 'form_type' | 'type' | 'options'>): FormType {
  if (formType) return formType;
  const choice = (options ?? []).length > 0;
  if (type === 'bool') return 'checkbox';
  if (type === 'list(string)') return choice ? 'multi-select' : 'tag-select';
  return choice ? 'radio' : 'input';
}

function problemOf(definition: TemplateVersionParameter, state: ParameterState): string | undefined {
  const { value, type } = state;
  if (state.formType === 'error' || state.locked) return undefined;
  if (value === '' && (definition.required || type !== 'string')) {
    if (type === 'number') return 'Enter a number.';
    if (state.options.length > 0) return 'Choose an option.';
    if (type === 'string') return 'Enter a value.';
  }
  const rules = rulesOf(definition, state.formType);
  if (choiceProblem(rules, value) !== undefined) return 'Choose one of the options.';
  const broken = validationProblem(rules, value, state.previous);
  return broken?.own || broken?.problem || typeProblem(type, value);
}

function rulesOf(definition: TemplateVersionParameter, formType: FormType): ParameterRules {
  const { validation_min: min, validation_max: max } = definition;
  const regex = definition.validation_regex ?? '';
  const monotonic = definition.validation_monotonic ?? '';
  const validated = min !== undefined || max !== undefined || regex !== '' || monotonic !== '';
  return {
    type: definition.type,
    formType,
    options: (definition.options ?? []).map(({ value }) => value),
    validation: validated ? { min, max, regex, monotonic, error: definition.validation_error ?? '' } : undefined,
  };
}

/** The `param.NAME=VALUE` pairs of an address. */
export function linkValues(search: Readonly<Record<string, string>>): NameValue[] {
  return Object.entries(search)
    .filter(([key]) => key.startsWith('param.') && key.length > 6)
    .map(([key, value]) => ({ name: key.slice(6), value }));
}
