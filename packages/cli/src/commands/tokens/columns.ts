import type { APIKey } from '@ropewalk/contract';
import type { Columns } from '../../lib/output.ts';

/** A token. Servers of before 2.28 name one scope and no objects. */
export type TokenRow = Omit<APIKey, 'scopes' | 'allow_list'> & Partial<APIKey> & { username?: string };

const sorted = (list: readonly string[]) => [...list].sort().join(', ');

/** The columns of `coder tokens list` and `coder tokens view`. */
export const tokenColumns = {
  id: (one) => one.id,
  name: (one) => one.token_name,
  scopes: (one) => sorted(one.scopes ?? [one.scope ?? '']),
  'allow list': (one) => sorted(one.allow_list ?? []),
  'last used': (one) => (one.last_used.startsWith('0001-') ? 'never' : one.last_used),
  'expires at': (one) => one.expires_at,
  'created at': (one) => one.created_at,
  owner: (one) => one.username ?? one.user_id,
} satisfies Columns<TokenRow>;

export type TokenColumn = keyof typeof tokenColumns;
