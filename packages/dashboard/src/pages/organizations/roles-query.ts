import { apiQuery } from '../../api/query.ts';

/** The built-in and custom roles of an organization. */
export const rolesQuery = (organization: string) =>
  apiQuery('GET /organizations/{organization}/members/roles', [{ kind: 'organization' }], { params: { organization } });
