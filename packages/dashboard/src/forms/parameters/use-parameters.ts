import type { Preset, TemplateVersionParameter } from '@ropewalk/contract';
import { useState } from 'react';
import { ApiError } from '../../api/errors.ts';
import {
  applyPreset,
  changeParameter,
  type NameValue,
  type ParameterState,
  type Sources,
  startParameters,
  valuesOf,
} from './state.ts';

export interface Parameters {
  states: readonly ParameterState[];
  change: (name: string, value: string) => void;
  preset: Preset | undefined;
  setPreset: (preset: Preset | undefined) => void;
  values: NameValue[];
  /** Whether every value is valid. */
  valid: boolean;
}

/** The parameters of a form, evaluated in the browser. Use a `key` to start again with other definitions. */
export function useParameters(definitions: readonly TemplateVersionParameter[], sources: Sources): Parameters {
  const [{ list, preset }, set] = useState(() => ({
    list: startParameters(definitions, sources),
    preset: sources.preset,
  }));
  const states = list.map(({ state }) => state);
  return {
    states,
    change: (name, value) => set((old) => ({ ...old, list: changeParameter(old.list, name, value) })),
    preset,
    setPreset: (next) => set((old) => ({ list: applyPreset(old.list, old.preset, next), preset: next })),
    values: valuesOf(states),
    valid: states.every(({ problem, formType }) => problem === undefined && formType !== 'error'),
  };
}

/** The server's complaints by parameter name. */
export function rejectedParameters(err: unknown): Record<string, string> {
  if (!(err instanceof ApiError)) return {};
  return Object.fromEntries(err.validations.map(({ field, detail }) => [field, detail]));
}

/** Scrolls to the first field with a problem. */
export function showFirstProblem(states: readonly ParameterState[]): void {
  const first = states.find(({ problem }) => problem !== undefined);
  const field = first && document.getElementById(`parameter-${first.name}`);
  field?.scrollIntoView({ block: 'center' });
  field?.querySelector<HTMLElement>('input,textarea,button')?.focus();
}
