import type { TemplateVersionVariable, VariableValue } from '@ropewalk/contract';

export type VariableValues = Readonly<Record<string, string>>;

/** What the fields show of a variable. */
export type FieldVariable = Pick<
  TemplateVersionVariable,
  'name' | 'type' | 'description' | 'required' | 'sensitive' | 'default_value'
>;

/** Names of variables that need a value and have none. */
export const missingVariables = (variables: readonly FieldVariable[], values: VariableValues): string[] =>
  variables.filter(({ name, required }) => required && (values[name] ?? '') === '').map(({ name }) => name);

/**
 * The values to send: those that differ from the variable's default or from the value of the version, and all that have
 * no default.
 */
export function valuesToSend(variables: readonly TemplateVersionVariable[], values: VariableValues): VariableValue[] {
  return variables.flatMap(({ name, required, value: before, default_value, sensitive }) => {
    const value = values[name] ?? '';
    if (value === '' && (required || sensitive)) return [];
    return required || value !== default_value || value !== before ? [{ name, value }] : [];
  });
}

/** The values that a version was imported with. Sensitive ones are not readable. */
export const valuesOf = (variables: readonly TemplateVersionVariable[]): VariableValues =>
  Object.fromEntries(
    variables.map(({ name, value, default_value, sensitive }) => [name, sensitive ? '' : value || default_value]),
  );
