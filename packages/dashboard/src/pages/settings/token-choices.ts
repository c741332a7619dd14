import type { APIKeyScope } from '@ropewalk/contract';
import { apiQuery } from '../../api/query.ts';

export const tokensQuery = apiQuery('GET /users/{user}/keys/tokens', [], { params: { user: 'me' } });

export const SCOPES: { value: APIKeyScope; label: string; help: string }[] = [
  { value: 'all', label: 'Everything', help: 'All that you may do.' },
  { value: 'application_connect', label: 'Apps only', help: 'Opens workspace apps, and nothing else.' },
];
