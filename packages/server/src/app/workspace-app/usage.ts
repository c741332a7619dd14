import { errorText } from '@ropewalk/kit';
import { systemTask } from '../../authz/proofs.ts';
import { possibleUses, type ReportedUse, recordAppUse } from '../../db/queries/workspace-apps.ts';
import type { WebConnection } from '../audit-entries/connection.ts';
import { type Services, systemContext } from '../context/context.ts';
import type { AppGrant } from '../context/sealed-tokens.ts';
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

/** What the connection log has about a visitor who got this grant. `app`: a slug or a port. */
export function visitOf(
  { workspace, agent, user }: Pick<AppGrant, 'workspace' | 'agent' | 'user'>,
  app: string,
  client: Pick<WebConnection, 'ip' | 'userAgent'>,
): WebConnection {
  return {
    workspaceId: workspace,
    agentId: agent,
    app,
    isPort: parsePort(app) !== undefined,
    userId: user || null,
    ...client,
  };
}

/**
 * Records that apps and ports are in use, as a workspace proxy reports it. Reports about agents that do not run, and about
 * apps that their agent does not have, are ignored.
 */
export async function recordReportedUses(services: Services, reported: readonly ReportedUse[]): Promise<void> {
  if (reported.length === 0) return;
  const by = systemTask(systemContext(services, 'app use'));
  for (const { workspaceId, slug } of await possibleUses(services.sql, reported)) {
    const isApp = slug !== '' && !parsePort(slug);
    await recordAppUse(services.sql, by, { workspaceId, slug: isApp ? slug : undefined });
  }
}
