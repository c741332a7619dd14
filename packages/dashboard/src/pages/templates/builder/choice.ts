import type {
  TemplateBuilderBase,
  TemplateBuilderComposeRequest,
  TemplateBuilderModule,
  TemplateBuilderModuleVariable,
} from '@ropewalk/contract';
import { type FieldVariable, missingVariables, type VariableValues } from '../variable-values.ts';

/** The values that a person entered, by the id of a base or a module. */
export type Entered = Readonly<Record<string, VariableValues>>;

/** The variables that the form asks for. The import asks for sensitive values, which the source does not contain. */
export const fieldsOf = (variables: readonly TemplateBuilderModuleVariable[]): FieldVariable[] =>
  variables
    .filter(({ sensitive }) => !sensitive)
    .map(({ default: value, ...variable }) => ({ ...variable, default_value: value === undefined ? '' : `${value}` }));

/** The entered values, or else the defaults. */
export const shownValues = (
  variables: readonly TemplateBuilderModuleVariable[],
  entered: VariableValues = {},
): VariableValues => ({
  ...Object.fromEntries(fieldsOf(variables).map(({ name, default_value }) => [name, default_value])),
  ...entered,
});

/** The values that differ from the defaults. */
function changedValues(
  variables: readonly TemplateBuilderModuleVariable[],
  entered: VariableValues = {},
): Record<string, string> {
  return Object.fromEntries(
    fieldsOf(variables).flatMap(({ name, type, required, default_value }) => {
      const value = entered[name];
      if (value === undefined || (value === '' && (required || type !== 'string'))) return [];
      return required || value !== default_value ? [[name, value]] : [];
    }),
  );
}

/** Whether a required value is missing. */
export const isMissing = (
  variables: readonly TemplateBuilderModuleVariable[],
  entered: VariableValues | undefined,
): boolean => missingVariables(fieldsOf(variables), shownValues(variables, entered)).length > 0;

export const requestOf = (
  base: TemplateBuilderBase,
  modules: readonly TemplateBuilderModule[],
  entered: Entered,
): TemplateBuilderComposeRequest => ({
  base_template_id: base.id,
  base_variable_values: changedValues(base.variables, entered[base.id]),
  modules: modules.map(({ id, variables }) => ({ id, variables: changedValues(variables, entered[`modules/${id}`]) })),
});

/** The chosen module that excludes this one, if there is one. */
export const excludedBy = (
  module: TemplateBuilderModule,
  chosen: readonly TemplateBuilderModule[],
): TemplateBuilderModule | undefined =>
  chosen.find(
    (other) =>
      other.id !== module.id && (other.conflicts_with.includes(module.id) || module.conflicts_with.includes(other.id)),
  );
