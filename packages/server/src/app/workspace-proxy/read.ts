// Regions are where people open apps: the servers together are the primary region, and each workspace proxy is another.
import type { Region, RegionsResponse, WorkspaceProxiesResponse, WorkspaceProxy } from '@ropewalk/contract';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import type { Db } from '../../db/connect.ts';
import {
  allWorkspaceProxies,
  proxiesSeenAt,
  workspaceProxyById,
  workspaceProxyByName,
} from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import type { Ctx, Services } from '../context/context.ts';
import { appHost } from '../values/app-address.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { PROXIES_CHANGE, type ProxyHealth } from './health.ts';

/** The name of the region of the servers. No proxy can have it. */
export const PRIMARY = 'primary';

/** What owners can change of the primary region. The defaults are upstream's: the picture is a house. */
export const primarySettings = siteSettings<{ display_name: string; icon: string }>({
  key: 'primary_region',
  resourceType: 'workspace_proxy',
  initial: { display_name: 'Default', icon: '/emojis/1f3e1.png' },
  change: PROXIES_CHANGE.id,
});

export const proxyObject = ({ id }: Pick<WorkspaceProxyRow, 'id'>) => ({ type: 'workspace_proxy', id }) as const;

async function primaryRegion(services: Services): Promise<Region> {
  const { display_name, icon } = await primarySettings.read(services);
  return {
    id: services.deploymentId,
    name: PRIMARY,
    display_name,
    icon_url: icon,
    healthy: true,
    path_app_url: services.accessUrl,
    wildcard_hostname: appHost(services),
  };
}

/** When this process started. */
const startTime = () => new Date(performance.timeOrigin);

/** The primary region in the form of a proxy. */
export async function primaryProxy(services: Services): Promise<WorkspaceProxy> {
  const started = time(startTime());
  return {
    ...(await primaryRegion(services)),
    derp_enabled: false,
    derp_only: false,
    status: { status: 'ok', report: { errors: [], warnings: [] }, checked_at: time(services.clock.now()) },
    created_at: started,
    updated_at: started,
    deleted: false,
    version: services.version,
  };
}

/** @param seenAt when a process of the proxy last registered, if the answer shows that */
export function toWorkspaceProxy(
  row: WorkspaceProxyRow,
  health: Pick<ProxyHealth, 'statusOf'>,
  seenAt?: Date,
): WorkspaceProxy {
  const status = health.statusOf(row);
  return {
    id: row.id,
    name: row.name,
    display_name: row.display_name,
    icon_url: row.icon,
    healthy: status.status === 'ok',
    path_app_url: row.url,
    wildcard_hostname: row.wildcard_hostname,
    derp_enabled: row.derp_enabled,
    derp_only: row.derp_only,
    status,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    deleted: false,
    version: row.version,
    ...(seenAt ? { last_seen_at: time(seenAt) } : {}),
  };
}

/** The regions where people can open apps. Everyone with a session may see them, whatever the rights to proxies. */
export async function regions(ctx: Ctx, health: ProxyHealth): Promise<RegionsResponse> {
  const [primary, rows] = await Promise.all([primaryRegion(ctx), allWorkspaceProxies(ctx.sql)]);
  const served = rows
    .filter(({ derp_only: isRelayOnly }) => !isRelayOnly)
    .map((row): Region => {
      const { id, name, display_name, icon_url, healthy, path_app_url, wildcard_hostname } = toWorkspaceProxy(
        row,
        health,
      );
      return { id, name, display_name, icon_url, healthy, path_app_url, wildcard_hostname };
    });
  return { regions: [primary, ...served] };
}

/** All proxies with their health, the primary region first. */
export async function everyProxy(services: Services, health: ProxyHealth): Promise<WorkspaceProxiesResponse> {
  const { sql } = services;
  const [primary, rows, seen] = await Promise.all([
    primaryProxy(services),
    allWorkspaceProxies(sql),
    proxiesSeenAt(sql),
  ]);
  return { regions: [primary, ...rows.map((row) => toWorkspaceProxy(row, health, seen.get(row.id)))] };
}

export function listWorkspaceProxies(ctx: Ctx, health: ProxyHealth): Promise<WorkspaceProxiesResponse> {
  authorize(ctx, 'read', { type: 'workspace_proxy' });
  return everyProxy(ctx, health);
}

/** Whether a name or id is that of the primary region. */
export const isPrimary = ({ deploymentId }: Pick<Services, 'deploymentId'>, name: string): boolean =>
  name === PRIMARY || name.toLowerCase() === deploymentId;

/** Finds a proxy by its id or name. @throws AppError `not_found` for the primary region, too */
export async function findWorkspaceProxy<A extends Action>(
  ctx: Ctx,
  action: A,
  name: string,
  db: Db = ctx.sql,
): Promise<Allowed<A, WorkspaceProxyRow>> {
  authorize(ctx, 'read', { type: 'workspace_proxy', ...(isUuid(name) ? { id: name } : {}) });
  const row = await (isUuid(name) ? workspaceProxyById(db, name) : workspaceProxyByName(db, name));
  if (!row) throw notFound();
  return allow(ctx, action, row, proxyObject(row));
}

export async function getWorkspaceProxy(ctx: Ctx, health: ProxyHealth, name: string): Promise<WorkspaceProxy> {
  if (!isPrimary(ctx, name)) {
    const [row, seen] = await Promise.all([findWorkspaceProxy(ctx, 'read', name), proxiesSeenAt(ctx.sql)]);
    return toWorkspaceProxy(row, health, seen.get(row.id));
  }
  authorize(ctx, 'read', { type: 'workspace_proxy', id: ctx.deploymentId });
  return primaryProxy(ctx);
}
