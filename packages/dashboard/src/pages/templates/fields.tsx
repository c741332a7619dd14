import { fieldError } from '../../api/errors.ts';
import { IconField } from '../../forms/icon-field.tsx';
import { Field, Input, TextArea } from '../../ui/field.tsx';

export interface TemplateValues {
  name: string;
  display_name: string;
  description: string;
  icon: string;
}

export const TEMPLATE_FIELDS = ['name', 'display_name', 'description', 'icon'] as const;
const LONGEST_DESCRIPTION = 128;

/** How a template is named and shown, for creating one and for its settings. */
export function TemplateFields({
  values,
  onChange,
  error,
}: {
  values: TemplateValues;
  onChange: (values: TemplateValues) => void;
  error: unknown;
}) {
  const set = (name: keyof TemplateValues) => (event: { target: { value: string } }) =>
    onChange({ ...values, [name]: event.target.value });
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field
          label="Name"
          required
          help="Part of addresses and commands. Letters, digits and hyphens."
          error={fieldError(error, 'name')}
        >
          <Input value={values.name} maxLength={32} onChange={set('name')} />
        </Field>
        <Field label="Display name" help="What people see. Empty: the name." error={fieldError(error, 'display_name')}>
          <Input value={values.display_name} maxLength={64} onChange={set('display_name')} />
        </Field>
      </div>
      <Field
        label="Description"
        help={`One sentence for the list of templates. ${values.description.length} of ${LONGEST_DESCRIPTION} characters.`}
        error={fieldError(error, 'description')}
      >
        <TextArea rows={2} maxLength={LONGEST_DESCRIPTION} value={values.description} onChange={set('description')} />
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
