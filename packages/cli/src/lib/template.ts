import type { Client } from '@ropewalk/client';
import type { Organization, Template, TemplateVersion } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import { orNotFound } from './not-found.ts';
import { choose } from './prompt.ts';

export function findTemplate(client: Client, organization: Organization, name: string): Promise<Template> {
  const answer = client.call('GET /organizations/{organization}/templates/{templatename}', {
    params: { organization: organization.id, templatename: name },
  });
  return orNotFound(
    answer,
    `Template ${JSON.stringify(name)} not found in the organization ${organization.name}. List templates with: coder templates list`,
  );
}

/** Finds templates by name. Without names, asks for one. */
export async function pickTemplates(
  ctx: Context,
  client: Client,
  organization: Organization,
  names: readonly string[],
): Promise<Template[]> {
  if (names.length > 0) return Promise.all(names.map((name) => findTemplate(client, organization, name)));
  const all = await client.call('GET /organizations/{organization}/templates', {
    params: { organization: organization.id },
  });
  if (all.length === 0) throw new AppError('not_found', `The organization ${organization.name} has no templates.`);
  const options = all.map(({ name }) => ({ value: name, label: name }));
  const chosen = await choose(ctx, 'Template', options, 'name a template on the command line.');
  return all.filter(({ name }) => name === chosen);
}

export async function findVersion(
  client: Client,
  organization: Pick<Organization, 'id'>,
  templateName: string,
  versionName: string,
): Promise<TemplateVersion> {
  const answer = client.call(
    'GET /organizations/{organization}/templates/{templatename}/versions/{templateversionname}',
    { params: { organization: organization.id, templatename: templateName, templateversionname: versionName } },
  );
  return orNotFound(answer, `Version ${JSON.stringify(versionName)} of the template ${templateName} not found.`);
}

/** Every version of a template, newest first. */
export async function allVersions(client: Client, templateId: string, archived = false): Promise<TemplateVersion[]> {
  const versions: TemplateVersion[] = [];
  for (;;) {
    const page = await client.call('GET /templates/{template}/versions', {
      params: { template: templateId },
      query: { limit: 100, offset: versions.length, ...(archived ? { include_archived: true } : {}) },
    });
    versions.push(...page);
    if (page.length < 100) return versions.sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
  }
}

export function deprecated(ctx: Context, what: string, instead: string): void {
  note(ctx.io, `${what} is deprecated. Use ${instead}.`);
}
