import type { RegionsResponse, Replica, WorkspaceProxiesResponse } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { liveReplicas } from '../../db/queries/replicas.ts';
import type { Ctx } from '../context/context.ts';
import { time } from '../values/time.ts';
import { appHost } from './info.ts';

// The servers of the deployment are the only region.

const primaryRegion = (ctx: Ctx) => ({
  id: ctx.deploymentId,
  name: 'primary',
  display_name: 'Default',
  // upstream's picture of the server itself: a house
  icon_url: '/emojis/1f3e1.png',
  healthy: true,
  path_app_url: ctx.accessUrl,
  wildcard_hostname: appHost(ctx),
});

/** When this process started. */
const startTime = () => new Date(performance.timeOrigin);

export function regions(ctx: Ctx): RegionsResponse {
  return { regions: [primaryRegion(ctx)] };
}

/** The regions with the details that administrators see. Upstream's dashboard asks for them instead of the regions. */
export function workspaceProxies(ctx: Ctx): WorkspaceProxiesResponse {
  authorize(ctx, 'read', { type: 'deployment_config' });
  const started = time(startTime());
  return {
    regions: [
      {
        ...primaryRegion(ctx),
        derp_enabled: false,
        derp_only: false,
        status: { status: 'ok', report: { errors: [], warnings: [] }, checked_at: time(ctx.clock.now()) },
        created_at: started,
        updated_at: started,
        deleted: false,
        version: ctx.version,
      },
    ],
  };
}

/** The servers that use the database, the one that started first first. */
export async function replicas(ctx: Ctx): Promise<Replica[]> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  const rows = await liveReplicas(ctx.sql);
  return rows.map((row) => ({
    id: row.id,
    hostname: row.hostname,
    created_at: time(row.started_at),
    relay_address: row.relay_address,
    region_id: PRIMARY_REGION_ID,
    error: row.problem,
    database_latency: row.database_latency_us,
  }));
}

/** Upstream's default number for the region of the server itself. */
const PRIMARY_REGION_ID = 999;
