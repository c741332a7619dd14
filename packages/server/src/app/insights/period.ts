import { authorize } from '../../authz/authorize.ts';
import type { InsightsScope } from '../../db/queries/insights.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';
import { badQuery } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';

export const DAY_MS = 86_400_000;
/** The longest period. Usage is kept that long. */
export const MAX_DAYS = 400;
const MAX_TEMPLATES = 100;

export interface PeriodQuery {
  start_time?: string;
  end_time?: string;
  template_ids?: string;
}

function timeOf(field: string, text = ''): Date {
  // with a zone: without one, the meaning would depend on the server's
  const found = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i.test(text) ? new Date(text) : undefined;
  if (!found || Number.isNaN(found.getTime())) throw badQuery(field, 'must be a time like 2026-01-31T00:00:00Z');
  return found;
}

/**
 * The requested period and templates, for actors who may view the insights of each of these templates, or of all
 * templates if the request names none.
 */
export async function insightsScope(ctx: Ctx, query: PeriodQuery): Promise<InsightsScope> {
  const ids = [...new Set((query.template_ids ?? '').split(',').filter((id) => id !== ''))];
  const invalid = ids.find((id) => !isUuid(id));
  if (invalid !== undefined) throw badQuery('template_ids', `${JSON.stringify(invalid)} is not a UUID`);
  if (ids.length > MAX_TEMPLATES) throw badQuery('template_ids', `must have at most ${MAX_TEMPLATES} ids`);
  if (ids.length === 0) authorize(ctx, 'view_insights', { type: 'template' });
  for (const id of ids) await findTemplate(ctx, 'view_insights', id);
  const from = timeOf('start_time', query.start_time);
  const to = timeOf('end_time', query.end_time);
  if (from >= to) throw badQuery('end_time', 'must be after start_time');
  if (to.getTime() - from.getTime() > MAX_DAYS * DAY_MS) {
    throw badQuery('end_time', `must be at most ${MAX_DAYS} days after start_time`);
  }
  return { from, to, templateIds: ids.length > 0 ? ids : null };
}
