import type { DAUsResponse } from '@ropewalk/contract';
import { dailyActiveUsers } from '../../db/queries/templates.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';

/** The number of people who used workspaces of a template, by day in a time zone `offset` hours east of UTC. */
export async function getTemplateDaus(ctx: Ctx, id: string, offset = 0): Promise<DAUsResponse> {
  const template = await findTemplate(ctx, 'view_insights', id);
  const entries = await dailyActiveUsers(ctx.lists, template.id, offset);
  return { tz_hour_offset: offset, entries: entries.map(({ date, amount }) => ({ date, amount })) };
}
