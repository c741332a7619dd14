import type { Organization } from '@ropewalk/contract';
import type { Columns } from '../../lib/output.ts';

/** The columns of `coder organizations show` and `coder organizations list`. */
export const organizationColumns = {
  id: (one) => one.id,
  name: (one) => one.name,
  'display name': (one) => one.display_name,
  icon: (one) => one.icon ?? '',
  description: (one) => one.description ?? '',
  'created at': (one) => one.created_at,
  'updated at': (one) => one.updated_at,
  default: (one) => String(one.is_default),
} satisfies Columns<Organization>;

export const organizationColumnNames = Object.keys(organizationColumns) as (keyof typeof organizationColumns)[];
