import { apiQuery } from '../../api/query.ts';

/** Options change only with a restart of the server. */
export const configQuery = apiQuery('GET /deployment/config', []);
export const statsQuery = apiQuery('GET /deployment/stats', [{ kind: 'workspace' }]);
export const healthQuery = apiQuery('GET /debug/health', [{ kind: 'provisioner' }]);
