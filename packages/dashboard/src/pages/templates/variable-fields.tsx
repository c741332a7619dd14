import { Badge } from '../../ui/badge.tsx';
import { Field, Input, NativeSelect } from '../../ui/field.tsx';
import { type FieldVariable, missingVariables, type VariableValues } from './variable-values.ts';

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
