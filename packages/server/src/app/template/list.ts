import type { Template } from '@platform/contract';
import { readScope } from '../../authz/authorize.ts';
import type { Ctx } from '../context.ts';
import { parseSearch, searchBool } from '../search.ts';
import { toTemplates } from './convert.ts';
import { type TemplateRow, templateColumns } from './find.ts';

const KNOWN = ['name', 'exact_name', 'organization', 'deprecated'] as const;

export interface TemplateQuery {
  /** `name: exact_name: organization: deprecated:` and free text, which is part of the name. */
  q?: string;
  deprecated?: boolean;
}

/** The templates that the actor may read, by display name; of one organization if told. */
export async function listTemplates(ctx: Ctx, query: TemplateQuery, organizationId?: string): Promise<Template[]> {
  const { lists: sql, actor } = ctx;
  const search = parseSearch(query.q, KNOWN);
  const scope = readScope(actor, 'template');
  // what a template's own list of users and groups opens, within the organizations one belongs to; not to a token of apps
  const memberOf = actor.kind === 'user' && actor.scope === 'all' ? [...actor.organizations.keys()] : [];
  const groups = actor.kind === 'user' ? actor.groups : [];
  const name = search.terms.get('name') ?? (search.words.join(' ') || null);
  const exact = search.terms.get('exact_name') ?? null;
  const organization = search.terms.get('organization') ?? null;
  const deprecated = searchBool(search, 'deprecated') ?? query.deprecated ?? null;
  const rows = await sql<TemplateRow[]>`SELECT ${templateColumns(sql)} WHERE NOT t.deleted
    AND (${scope.all} OR t.organization_id = ANY(${scope.organizationIds}) OR (t.organization_id = ANY(${memberOf})
      AND (t.user_acl ? ${scope.ownerId} OR t.group_acl ?| (${groups}::text[] || t.organization_id::text))))
    AND (${organizationId ?? null}::uuid IS NULL OR t.organization_id = ${organizationId ?? null}::uuid)
    AND (${organization}::text IS NULL OR o.id::text = ${organization}::text OR lower(o.name) = lower(${organization}::text))
    AND (${exact}::text IS NULL OR lower(t.name) = lower(${exact}::text))
    AND (${name}::text IS NULL OR position(lower(${name}::text) IN lower(t.name)) > 0
      OR position(lower(${name}::text) IN lower(t.display_name)) > 0)
    AND (${deprecated}::boolean IS NULL OR (t.deprecated <> '') = ${deprecated}::boolean)
    ORDER BY lower(coalesce(nullif(t.display_name, ''), t.name)), t.id`;
  return toTemplates(sql, rows);
}
