import { useSuspenseQuery } from '@tanstack/react-query';
import { apiQuery } from './query.ts';

export const meQuery = apiQuery('GET /users/{user}', [{ kind: 'user' }], { params: { user: 'me' } });
export const appearanceQuery = apiQuery('GET /appearance', [{ kind: 'deployment' }]);
export const buildInfoQuery = apiQuery('GET /buildinfo', []);
export const organizationsQuery = apiQuery('GET /organizations', [{ kind: 'organization' }, { kind: 'user' }]);

/** The signed-in person. The pages that use it are below the layout that waits for it. */
export const useMe = () => useSuspenseQuery(meQuery).data;
