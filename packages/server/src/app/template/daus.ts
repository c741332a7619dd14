import type { DAUsResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import type { Ctx } from '../context.ts';
import { findTemplate, templateObject } from './find.ts';

/** How many people used workspaces of a template, by day of a time zone `offset` hours east of UTC. */
export async function getTemplateDaus(ctx: Ctx, id: string, offset = 0): Promise<DAUsResponse> {
  if (offset < -12 || offset > 14) throw new AppError('invalid', 'tz_offset must be -12 to 14.');
  const template = await findTemplate(ctx, id);
  authorize(ctx, 'view_insights', templateObject(template));
  const entries = await ctx.sql<{ date: string; amount: number }[]>`
    SELECT to_char(s.created_at AT TIME ZONE 'UTC' + ${offset} * interval '1 hour', 'YYYY-MM-DD') AS date,
      count(DISTINCT w.owner_id) AS amount
    FROM workspace_agent_stats s JOIN workspaces w ON w.id = s.workspace_id
    WHERE w.template_id = ${template.id} AND s.created_at > now() - interval '60 days'
      AND s.session_count_vscode + s.session_count_jetbrains + s.session_count_reconnecting_pty + s.session_count_ssh > 0
    GROUP BY 1 ORDER BY 1`;
  return { tz_hour_offset: offset, entries: entries.map(({ date, amount }) => ({ date, amount })) };
}
