import type { TemplateVersionVariable, VariableValue } from '@ropewalk/contract';
import { Badge } from '../../ui/badge.tsx';
import { Field, Input, NativeSelect } from '../../ui/field.tsx';

export type VariableValues = Readonly<Record<string, string>>;

/** What the fields show of a variable. */
export type FieldVariable = Pick<
  TemplateVersionVariable,
  'name' | 'type' | 'description' | 'required' | 'sensitive' | 'default_value'
>;

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

/** Names of variables that need a value and have none. */
export const missingVariables = (variables: readonly FieldVariable[], values: VariableValues): string[] =>
  variables.filter(({ name, required }) => required && (values[name] ?? '') === '').map(({ name }) => name);

/** The values that a version was imported with. Sensitive ones are not readable. */
export const valuesOf = (variables: readonly TemplateVersionVariable[]): VariableValues =>
  Object.fromEntries(
    variables.map(({ name, value, default_value, sensitive }) => [name, sensitive ? '' : value || default_value]),
  );

/** The Terraform variables of a template. */
export function VariableFields({
  variables,
  values,
  onChange,
  showMissing = false,
}: {
  variables: readonly FieldVariable[];
  values: VariableValues;
  onChange: (values: VariableValues) => void;
  showMissing?: boolean;
}) {
  const missing = showMissing ? missingVariables(variables, values) : [];
  return (
    <>
      {variables.map(({ name, type, description, required, sensitive, default_value }) => {
        const value = values[name] ?? '';
        const change = (event: { target: { value: string } }) => onChange({ ...values, [name]: event.target.value });
        return (
          <Field
            key={name}
            label={
              <span className="inline-flex items-center gap-2">
                <span className="font-mono">{name}</span>
                {sensitive && <Badge>Sensitive</Badge>}
              </span>
            }
            required={required}
            help={
              <>
                {description}
                {sensitive && !required && ' Empty: its default.'}
              </>
            }
            error={missing.includes(name) ? 'Enter a value.' : undefined}
          >
            {type === 'bool' ? (
              <NativeSelect value={value} onChange={change}>
                {(default_value === '' || sensitive) && <option value="">Choose…</option>}
                <option value="true">true</option>
                <option value="false">false</option>
              </NativeSelect>
            ) : (
              <Input
                type={sensitive ? 'password' : type === 'number' ? 'number' : 'text'}
                autoComplete={sensitive ? 'new-password' : 'off'}
                placeholder={sensitive ? '' : default_value}
                value={value}
                onChange={change}
              />
            )}
          </Field>
        );
      })}
    </>
  );
}
