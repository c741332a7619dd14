import type { BuildTimesResponse } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { buildTimesByDay } from '../../db/queries/insights.ts';
import type { Ctx } from '../context/context.ts';

/** How long starts of workspaces took, by day in a time zone `offset` hours east of UTC. */
export async function deploymentBuildTimes(ctx: Ctx, offset = 0): Promise<BuildTimesResponse> {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return { tz_hour_offset: offset, entries: await buildTimesByDay(ctx.lists, offset) };
}
