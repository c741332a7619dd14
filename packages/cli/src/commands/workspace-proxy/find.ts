import type { Client } from '@ropewalk/client';
import type { WorkspaceProxy } from '@ropewalk/contract';
import { orNotFound } from '../../lib/not-found.ts';

/** Finds a proxy by its name or id. */
export function findProxy(client: Client, proxy: string): Promise<WorkspaceProxy> {
  return orNotFound(
    client.call('GET /workspaceproxies/{workspaceproxy}', { params: { workspaceproxy: proxy } }),
    `Workspace proxy ${JSON.stringify(proxy)} not found, or you don't have access to it.`,
  );
}
