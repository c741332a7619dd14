import { fieldError } from '../../api/errors.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { Field, Input, TextArea } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { paths } from '../../util/paths.ts';

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
      <Field
        label="Icon"
        help={
          <>
            A path such as /icon/k8s.svg, or a URL. <Link to={paths.icons()}>All icons</Link>
          </>
        }
        error={fieldError(error, 'icon')}
      >
        <div className="flex items-center gap-2">
          <Avatar square size={32} name={values.display_name || values.name || '?'} src={values.icon} />
          <Input value={values.icon} onChange={set('icon')} />
        </div>
      </Field>
    </>
  );
}
