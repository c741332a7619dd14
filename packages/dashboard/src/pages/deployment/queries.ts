import { apiQuery } from '../../api/query.ts';

/** Options change only with a restart of the server. */
export const configQuery = apiQuery('GET /deployment/config', []);
/** What it contains changes on the server without an event: certificates expire, and secrets come and go. */
export const securityQuery = apiQuery('GET /deployment/security', []);
export const statsQuery = apiQuery('GET /deployment/stats', [{ kind: 'workspace' }]);
export const healthQuery = apiQuery('GET /debug/health', [{ kind: 'provisioner' }]);
