import { apiQuery } from '../../api/query.ts';

export const tokensQuery = apiQuery('GET /users/{user}/keys/tokens', [], {
  params: { user: 'me' },
  query: { include_expired: true },
});
