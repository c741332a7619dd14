/**
 * The parameters of a template as the server evaluates them while a person types: the same list of states as that of the
 * classic form. A value that the person has just typed is shown immediately. Its problem comes with the server's answer.
 */
import type { DynamicParametersResponse, PreviewParameter } from '@ropewalk/contract';
import {
  type FormType,
  formTypeOf,
  isFromLast,
  type NameValue,
  type ParameterState,
  presetValues,
  type Sources,
} from './state.ts';

export interface LiveForm {
  sources: Sources;
  /** The values that the person, a link, a preset or the last build has set. All others follow the template. */
  chosen: ReadonlyMap<string, string>;
  /** The parameters whose problems are worth showing, because the person changed them. */
  touched: ReadonlySet<string>;
  states: readonly ParameterState[];
}

/** The form before the server's first answer. */
export function startLive(sources: Sources): LiveForm {
  const chosen = new Map<string, string>();
  const set = (values: readonly NameValue[] = []) => {
    for (const { name, value } of values) chosen.set(name, value);
  };
  set(sources.autofill);
  set(sources.previous);
  set(sources.link);
  for (const [name, value] of presetValues(sources.preset)) chosen.set(name, value);
  const touched = new Set([...(sources.link ?? []), ...(sources.autofill ?? [])].map(({ name }) => name));
  return { sources, chosen, touched, states: [] };
}

/** The form with the server's answer. States that did not change stay the same objects. */
export function withAnswer(form: LiveForm, parameters: readonly PreviewParameter[]): LiveForm {
  const before = new Map(form.states.map((state) => [state.name, state]));
  // an ephemeral value of the last build does not count
  const dropped = new Set(
    parameters
      .filter(({ name, ephemeral }) => ephemeral && !form.touched.has(name) && wasKept(form, name))
      .map(({ name }) => name),
  );
  const next =
    dropped.size === 0 ? form : { ...form, chosen: new Map([...form.chosen].filter(([name]) => !dropped.has(name))) };
  return {
    ...next,
    states: parameters.map((parameter) => {
      const state = stateOf(next, parameter);
      const old = before.get(parameter.name);
      return old && JSON.stringify(old) === JSON.stringify(state) ? old : state;
    }),
  };
}

const wasKept = ({ sources, chosen }: LiveForm, name: string) =>
  sources.previous?.some((old) => old.name === name && old.value === chosen.get(name)) ?? false;

function stateOf({ sources, chosen, touched }: LiveForm, parameter: PreviewParameter): ParameterState {
  const { name, validations, styling } = parameter;
  const previous = sources.previous?.find((old) => old.name === name)?.value;
  const fixed = previous !== undefined && !parameter.mutable;
  const inPreset = presetValues(sources.preset).has(name);
  const defaultValue = parameter.default_value.valid ? parameter.default_value.value : '';
  const fromServer = parameter.value.valid ? parameter.value.value : undefined;
  const value = chosen.get(name) ?? fromServer ?? defaultValue;
  const [rule] = validations;
  const options = parameter.options.map((option) => ({ ...option, value: option.value.value }));
  const formType: FormType = formTypeOf({ form_type: parameter.form_type, type: parameter.type, options });
  const problem = parameter.diagnostics.find(({ severity }) => severity === 'error');
  const answered = value === (fromServer ?? '') || !chosen.has(name);
  return {
    name,
    label: parameter.display_name || name,
    description: parameter.description,
    icon: parameter.icon,
    type: parameter.type,
    formType,
    options,
    required: parameter.required,
    ephemeral: parameter.ephemeral,
    immutable: !parameter.mutable,
    min: rule?.validation_min ?? undefined,
    max: rule?.validation_max ?? undefined,
    defaultValue,
    value,
    previous,
    fromLast: chosen.get(name) === value && isFromLast(sources, name, value, defaultValue),
    locked: fixed
      ? 'Cannot be changed after the workspace was created.'
      : inPreset
        ? `Set by the preset ${sources.preset!.Name}.`
        : undefined,
    problem: problem && answered ? problem.detail || problem.summary : undefined,
    // a value that somebody set before may not fit what the person has changed since
    touched: touched.has(name) || chosen.has(name),
    later: fromServer === undefined && !parameter.required && !chosen.has(name),
    styling: {
      placeholder: styling.placeholder,
      disabled: styling.disabled,
      label: styling.label,
      masked: styling.mask_input,
    },
  };
}

/** The form after the person changed a value, before the server's answer. */
export function typed(form: LiveForm, name: string, value: string): LiveForm {
  if (form.states.some((state) => state.name === name && state.locked)) return form;
  return {
    ...form,
    chosen: new Map([...form.chosen, [name, value]]),
    touched: new Set([...form.touched, name]),
    states: form.states.map((state) =>
      state.name === name
        ? { ...state, value, touched: true, fromLast: false, later: false, problem: undefined }
        : state,
    ),
  };
}

/** The form with another preset, before the server's answer. The values of the preset before stay, and can change. */
export function withPreset(form: LiveForm, preset: Sources['preset']): LiveForm {
  const values = presetValues(preset);
  return {
    ...form,
    sources: { ...form.sources, preset },
    chosen: new Map([...form.chosen, ...values]),
    touched: new Set([...form.touched, ...values.keys()]),
    states: form.states.map((state) => ({
      ...state,
      value: values.get(state.name) ?? state.value,
      fromLast: state.fromLast && !values.has(state.name),
      locked: values.has(state.name) ? `Set by the preset ${preset!.Name}.` : undefined,
    })),
  };
}

/** What the server needs to evaluate the form. */
export const inputsOf = ({ chosen }: LiveForm): Record<string, string> => Object.fromEntries(chosen);

/** Problems that belong to no single parameter. */
export const generalProblems = ({ diagnostics }: DynamicParametersResponse) =>
  diagnostics.map(({ severity, summary, detail }) => ({ severity, summary, detail }));
