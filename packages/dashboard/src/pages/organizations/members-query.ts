import { apiQuery } from '../../api/query.ts';

/** All members of an organization that the person may see. */
export const membersQuery = (organization: string) =>
  apiQuery('GET /organizations/{organization}/members', [{ kind: 'user' }, { kind: 'organization_member' }], {
    params: { organization },
  });
