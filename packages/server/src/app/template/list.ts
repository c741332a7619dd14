import type { Template } from '@ropewalk/contract';
import { readScope } from '../../authz/authorize.ts';
import { listTemplateRows } from '../../db/queries/templates.ts';
import type { Ctx } from '../context/context.ts';
import { readOnce } from '../lists/read-once.ts';
import { parseSearch, searchBool } from '../lists/search.ts';
import { toTemplates } from './convert.ts';

const KNOWN = ['name', 'exact_name', 'organization', 'deprecated', 'deleted', 'has-ai-task'] as const;

export interface TemplateQuery {
  /** `name: exact_name: organization: deprecated: deleted: has-ai-task:` and free text, which matches part of the name. */
  q?: string;
  deprecated?: boolean;
}

/** Lists the templates that the actor may read, by display name. With an organization, only its templates. */
export function listTemplates(ctx: Ctx, query: TemplateQuery, organizationId?: string): Promise<Template[]> {
  return readOnce(ctx, ['templates', organizationId, query.q, query.deprecated], () =>
    readTemplates(ctx, query, organizationId),
  );
}

async function readTemplates(ctx: Ctx, query: TemplateQuery, organizationId?: string): Promise<Template[]> {
  const { lists: sql, actor } = ctx;
  const search = parseSearch(query.q, KNOWN);
  const scope = readScope(actor, 'template');
  // a template's own list of users and groups applies only within the actor's organizations, and if the token may read
  const memberId = actor.kind === 'user' && scope.ownerId !== '' ? actor.id : null;
  const rows = await listTemplateRows(sql, {
    scope,
    memberId,
    organizationId: organizationId ?? null,
    organization: search.terms.get('organization') ?? null,
    exactName: search.terms.get('exact_name') ?? null,
    name: search.terms.get('name') ?? (search.words.join(' ') || null),
    deleted: searchBool(search, 'deleted') ?? false,
    hasTask: searchBool(search, 'has-ai-task') ?? null,
    deprecated: searchBool(search, 'deprecated') ?? query.deprecated ?? null,
  });
  return toTemplates(sql, rows);
}
