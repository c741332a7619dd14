import { fieldError } from '../../api/errors.ts';
import { IconField } from '../../forms/icon-field.tsx';
import { Field, Input } from '../../ui/field.tsx';

export interface GroupValues {
  name: string;
  display_name: string;
  avatar_url: string;
  quota_allowance: string;
}

export const GROUP_FIELDS = ['name', 'display_name', 'avatar_url', 'quota_allowance'] as const;

/** The fields as the API takes them. Undefined while the allowance is not a whole number. */
export function groupBody({ quota_allowance: text, ...rest }: GroupValues) {
  const quota_allowance = Number(text.trim() || '0');
  return Number.isInteger(quota_allowance) && quota_allowance >= 0 ? { ...rest, quota_allowance } : undefined;
}

/** The fields of a group, for creating one and for its settings. The group Everyone keeps its name. */
export function GroupFields({
  values,
  onChange,
  error,
  everyone = false,
}: {
  values: GroupValues;
  onChange: (values: GroupValues) => void;
  error: unknown;
  everyone?: boolean;
}) {
  const set = (name: keyof GroupValues) => (event: { target: { value: string } }) =>
    onChange({ ...values, [name]: event.target.value });
  const wrong = groupBody(values) ? undefined : 'Enter a whole number, 0 or more.';
  return (
    <>
      {!everyone && (
        <>
          <Field
            label="Name"
            help="Part of addresses and commands. Letters, digits and hyphens."
            error={fieldError(error, 'name')}
          >
            <Input value={values.name} maxLength={255} onChange={set('name')} />
          </Field>
          <Field
            label="Display name"
            help="What people see. Empty: the name."
            error={fieldError(error, 'display_name')}
          >
            <Input value={values.display_name} maxLength={64} onChange={set('display_name')} />
          </Field>
        </>
      )}
      <IconField
        label="Picture"
        name={values.display_name || values.name}
        value={values.avatar_url}
        onChange={(avatar_url) => onChange({ ...values, avatar_url })}
        error={fieldError(error, 'avatar_url')}
      />
      <Field
        label="Quota allowance"
        help="What each member may spend on workspaces in a day. A person’s budget is the sum of the allowances of their groups. While no group of the organization has one, there is no limit."
        error={fieldError(error, 'quota_allowance') ?? wrong}
      >
        <Input
          type="number"
          min={0}
          step={1}
          className="max-w-32"
          value={values.quota_allowance}
          onChange={set('quota_allowance')}
        />
      </Field>
    </>
  );
}
