import { fieldError } from '../../api/errors.ts';
import { IconField } from '../../forms/icon-field.tsx';
import { Field, Input, TextArea } from '../../ui/field.tsx';

export interface OrganizationValues {
  name: string;
  display_name: string;
  description: string;
  icon: string;
}

export const ORGANIZATION_FIELDS = ['name', 'display_name', 'description', 'icon'] as const;

/** The fields of an organization, for creating one and for its settings. */
export function OrganizationFields({
  values,
  onChange,
  error,
}: {
  values: OrganizationValues;
  onChange: (values: OrganizationValues) => void;
  error: unknown;
}) {
  const set = (name: keyof OrganizationValues) => (event: { target: { value: string } }) =>
    onChange({ ...values, [name]: event.target.value });
  return (
    <>
      <Field
        label="Name"
        help="Part of addresses. Lowercase letters, digits and hyphens."
        error={fieldError(error, 'name')}
      >
        <Input value={values.name} onChange={set('name')} />
      </Field>
      <Field label="Display name" error={fieldError(error, 'display_name')}>
        <Input value={values.display_name} onChange={set('display_name')} />
      </Field>
      <Field label="Description" error={fieldError(error, 'description')}>
        <TextArea rows={2} maxLength={128} value={values.description} onChange={set('description')} />
      </Field>
      <IconField
        name={values.display_name || values.name}
        value={values.icon}
        onChange={(icon) => onChange({ ...values, icon })}
        error={fieldError(error, 'icon')}
      />
    </>
  );
}
