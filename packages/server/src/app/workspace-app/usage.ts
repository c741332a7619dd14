import { errorText } from '@ropewalk/kit';
import { systemTask } from '../../authz/proofs.ts';
import { recordAppUse } from '../../db/queries/workspace-apps.ts';
import { type Services, systemContext } from '../context/context.ts';
import { parsePort } from '../values/app-address.ts';

/**
 * Records that an app or a port of a workspace is in use: once for each grant, about once a minute. The caller does not
 * wait for it.
 */
export function noteWorkspaceUse(services: Services, workspaceId: string, app: string): void {
  const slug = parsePort(app) ? undefined : app;
  recordAppUse(services.sql, systemTask(systemContext(services, 'app use')), { workspaceId, slug }).catch((err) =>
    services.log.debug('could not record the use of a workspace', { err: errorText(err) }),
  );
}
