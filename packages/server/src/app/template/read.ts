import type { Template, TemplateExample } from '@ropewalk/contract';
import type { Ctx } from '../context/context.ts';
import { findOrganization, locateOrganization } from '../find/organization.ts';
import { findTemplate, findTemplateByName } from '../find/template.ts';
import { toTemplates } from './convert.ts';
import { listExamples } from './examples.ts';
import { listTemplates, type TemplateQuery } from './list.ts';

export async function getTemplate(ctx: Ctx, id: string): Promise<Template> {
  const [template] = await toTemplates(ctx.sql, [await findTemplate(ctx, 'read', id)]);
  return template!;
}

export async function getTemplateByName(ctx: Ctx, organization: string, name: string): Promise<Template> {
  const { organizationId } = await locateOrganization(ctx, organization);
  const [template] = await toTemplates(ctx.sql, [await findTemplateByName(ctx, organizationId, name)]);
  return template!;
}

/** The templates of one organization that the actor may read. */
export async function listTemplatesOf(ctx: Ctx, organization: string, query: TemplateQuery): Promise<Template[]> {
  const { id } = await findOrganization(ctx, 'read', organization);
  return listTemplates(ctx, query, id);
}

/** The starter templates, for people who may read the organization. */
export async function listExamplesOf(ctx: Ctx, organization: string): Promise<TemplateExample[]> {
  await findOrganization(ctx, 'read', organization);
  return listExamples();
}
