/** The values that search keys offer. They reject if the server does not answer. */
import { organizationsQuery } from './me.ts';
import { apiQuery, queryClient } from './query.ts';

const MAX_USERS = 10;

/** Users whose name, username or email address contains the text. */
export async function usersLike(typed: string) {
  const q = typed === '' ? '' : `search:${JSON.stringify(typed)}`;
  const query = apiQuery('GET /users', [{ kind: 'user' }], { query: { q, limit: MAX_USERS } });
  const { users } = await queryClient.fetchQuery(query);
  return users.map(({ username, name }) => ({ value: username, help: name }));
}

export async function organizationValues() {
  const organizations = await queryClient.ensureQueryData(organizationsQuery);
  return organizations.map(({ name, display_name }) => ({ value: name, help: display_name }));
}
