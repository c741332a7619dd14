import type { User } from '@ropewalk/contract';
import type { Columns } from '../../lib/output.ts';

export const userColumns = {
  id: (one) => one.id,
  username: (one) => one.username,
  name: (one) => one.name ?? '',
  email: (one) => one.email,
  'created at': (one) => one.created_at,
  'updated at': (one) => one.updated_at,
  'last seen at': (one) => one.last_seen_at ?? '',
  status: (one) => one.status,
  'login type': (one) => one.login_type,
} satisfies Columns<User>;

export const userColumnNames = Object.keys(userColumns) as (keyof typeof userColumns)[];
export const defaultUserColumns = ['username', 'email', 'created at', 'status'] as const;
