import type { Organization, Template, TemplateVersion } from '@ropewalk/contract';
import { queryOptions, useQueries, useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { client } from '../../api/client.ts';
import { organizationsQuery } from '../../api/me.ts';
import { organizationPermissions, templatePermissions } from '../../api/permissions.ts';
import { apiQuery } from '../../api/query.ts';
import { useRouteParams } from '../../util/route.ts';
import { readTar, type TarFile } from './files/tar.ts';

export const templateQuery = (organization: string, templatename: string) =>
  apiQuery('GET /organizations/{organization}/templates/{templatename}', [{ kind: 'template' }], {
    params: { organization, templatename },
  });

export const versionQuery = (templateversion: string) =>
  apiQuery('GET /templateversions/{templateversion}', [{ kind: 'template_version', id: templateversion }], {
    params: { templateversion },
  });

export const versionByNameQuery = (template: string, templateversionname: string) =>
  apiQuery(
    'GET /templates/{template}/versions/{templateversionname}',
    [{ kind: 'template_version' }, { kind: 'template', id: template }],
    { params: { template, templateversionname } },
  );

/** All versions of a template, oldest first. */
export const versionsQuery = (template: string) =>
  apiQuery(
    'GET /templates/{template}/versions',
    [
      { kind: 'template', id: template },
      { kind: 'template_version', id: template },
    ],
    { params: { template }, query: { include_archived: true } },
  );

/** The pools of prebuilt workspaces of a template. Most of their changes are changes of workspaces. */
export const poolsQuery = (template: string) =>
  apiQuery(
    'GET /templates/{template}/prebuilds',
    [{ kind: 'workspace' }, { kind: 'template', id: template }, { kind: 'deployment' }],
    { params: { template } },
  );

export const resourcesQuery = (templateversion: string) =>
  apiQuery('GET /templateversions/{templateversion}/resources', [], { params: { templateversion } });

export const parametersQuery = (templateversion: string) =>
  apiQuery('GET /templateversions/{templateversion}/rich-parameters', [], { params: { templateversion } });

export const variablesQuery = (templateversion: string) =>
  apiQuery('GET /templateversions/{templateversion}/variables', [], { params: { templateversion } });

export const examplesQuery = apiQuery('GET /templates/examples', []);

/** The files of an upload. They never change. */
export const filesQuery = (fileId: string) =>
  queryOptions({
    queryKey: ['files', fileId],
    queryFn: async (): Promise<TarFile[]> => readTar(await client.bytes(`/files/${encodeURIComponent(fileId)}`)),
    staleTime: Number.POSITIVE_INFINITY,
  });

/** The template of the page's address. The layout around its pages has loaded it. */
export function useTemplate(): Template {
  const { organization, template } = useRouteParams<'organization' | 'template'>();
  return useSuspenseQuery(templateQuery(organization, template)).data;
}

/** Whether the person may change the template, and with it read its source. False until known. */
export const useMayUpdate = (template: Template): boolean =>
  useQuery(templatePermissions(template.id)).data?.update ?? false;

/** The organizations in which the person may create templates. Undefined until known. */
export function useTemplateOrganizations(): Organization[] | undefined {
  const organizations = useQuery(organizationsQuery).data;
  const answers = useQueries({ queries: (organizations ?? []).map(({ id }) => organizationPermissions(id)) });
  if (!organizations || answers.some(({ isPending }) => isPending)) return undefined;
  return organizations.filter((_, at) => answers[at]!.data?.createTemplate);
}

/** Display names are optional. */
export const nameOf = (template: { name: string; display_name: string }): string =>
  template.display_name || template.name;

export const isEnded = (version: Pick<TemplateVersion, 'job'>): boolean => version.job.completed_at !== undefined;

/** A README without the front matter at its beginning. */
export const withoutFrontMatter = (readme: string): string =>
  readme.replace(/^---\r?\n[\s\S]*?\r?\n---\r?\n/, '').trim();
