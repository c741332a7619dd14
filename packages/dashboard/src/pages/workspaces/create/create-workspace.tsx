import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useQueries, useQuery } from '@tanstack/react-query';
import { Lock, SearchX } from 'lucide-react';
import { useState } from 'react';
import { organizationsQuery, useMe } from '../../../api/me.ts';
import { apiQuery } from '../../../api/query.ts';
import { linkValues } from '../../../forms/parameters/state.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { Page, Section } from '../../../ui/page.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useRouteParams, useSearchParams } from '../../../util/route.ts';
import { useBarriers } from '../../templates/barriers.ts';
import { templatesQuery, workspacesQuery } from '../queries.ts';
import { CreateForm } from './create-form.tsx';
import { OpenMatching } from './open-matching.tsx';

/** The form of a new workspace: at `/templates/[organization/]name/workspace`, also filled from a link. */
export default function CreateWorkspacePage() {
  const { organization, template: name } = useRouteParams<'organization' | 'template'>();
  const [search] = useSearchParams();
  const templates = useQuery(templatesQuery);
  const [chosen, setChosen] = useState('');
  const organizations = useQuery(organizationsQuery);
  // the address may have the word default
  const named = organizations.data?.find((one) => organization === 'default' && one.is_default)?.name ?? organization;
  const found = (templates.data ?? []).filter(
    (template) => template.name === name && (!named || template.organization_name === named),
  );
  const barrierOf = useBarriers(found);
  const open = found.filter((each) => barrierOf(each) === null);
  const template = open.find(({ organization_name }) => organization_name === chosen) ?? open[0] ?? found[0];
  const barrier = template && barrierOf(template);
  const isUnknown = found.some((each) => barrierOf(each) === undefined);
  return (
    <Page
      title="New workspace"
      width="narrow"
      description={template && `From the template ${template.display_name || template.name}`}
    >
      {templates.data === undefined || organizations.isPending || isUnknown ? (
        templates.isError ? (
          <ErrorView error={templates.error} retry={() => void templates.refetch()} />
        ) : (
          <SkeletonLines lines={8} />
        )
      ) : template === undefined ? (
        <Section>
          <EmptyState icon={SearchX} title={`There is no template ${name}`} action={toTemplates}>
            It was renamed or deleted, or you may not use it. Choose another one.
          </EmptyState>
        </Section>
      ) : (
        <OpenMatching match={search.mode === 'auto' ? search.match : undefined}>
          {barrier ? (
            <Section>
              <EmptyState icon={Lock} title={barrier.title} action={toTemplates}>
                {barrier.detail}
              </EmptyState>
            </Section>
          ) : (
            <Prepared
              key={template.id}
              template={template}
              organizations={open.map(({ organization_name }) => organization_name)}
              onOrganization={setChosen}
              search={search}
            />
          )}
        </OpenMatching>
      )}
    </Page>
  );
}

const toTemplates = (
  <LinkButton to={paths.templates()} look="primary">
    Templates
  </LinkButton>
);

const params = (templateversion: string) => ({ params: { templateversion } });

/** Loads what the form needs. */
function Prepared({
  template,
  organizations,
  onOrganization,
  search,
}: {
  template: Template;
  organizations: readonly string[];
  onOrganization: (name: string) => void;
  search: Readonly<Record<string, string>>;
}) {
  const me = useMe();
  const versions = useQuery(
    apiQuery('GET /templates/{template}/versions', [{ kind: 'template', id: template.id }], {
      params: { template: template.id },
    }),
  );
  const [chosen, setChosen] = useState<string>();
  const usable = (versions.data ?? []).filter(({ job }) => job.status === 'succeeded');
  const wanted = chosen ?? search.version;
  const version =
    usable.find(({ id, name }) => id === wanted || name === wanted) ??
    usable.find(({ id }) => id === template.active_version_id);
  const id = version?.id ?? template.active_version_id;
  const [definitions, presets, accounts, autofill, own] = useQueries({
    queries: [
      apiQuery('GET /templateversions/{templateversion}/rich-parameters', [], params(id)),
      apiQuery('GET /templateversions/{templateversion}/presets', [], params(id)),
      apiQuery('GET /templateversions/{templateversion}/external-auth', [{ kind: 'user', id: me.id }], params(id)),
      apiQuery('GET /users/{user}/autofill-parameters', [], {
        params: { user: 'me' },
        query: { template_id: template.id },
      }),
      workspacesQuery('owner:me', 0, 1_000),
    ],
  });
  const failed = [versions, definitions, presets, accounts, own].find(({ isError }) => isError);
  if (failed?.error) return <ErrorView error={failed.error} retry={() => void failed.refetch()} />;
  if (!versions.data || !definitions.data || !presets.data || !accounts.data || !own.data || autofill.isPending)
    return <SkeletonLines lines={8} />;
  return (
    <CreateForm
      // other definitions start the form again, but the name and the owner stay in the address
      key={id}
      template={template}
      version={version as TemplateVersion}
      versions={usable}
      onVersion={setChosen}
      missingVersion={wanted !== undefined && version?.id !== wanted && version?.name !== wanted ? wanted : undefined}
      organizations={organizations}
      onOrganization={onOrganization}
      definitions={definitions.data}
      presets={presets.data}
      accounts={accounts.data}
      autofill={search.mode === 'duplicate' ? [] : (autofill.data ?? [])}
      usedNames={own.data.workspaces.filter(({ owner_id }) => owner_id === me.id).map(({ name }) => name)}
      link={linkValues(search)}
      linkName={search.name}
      linkPreset={search.preset}
      mode={search.mode === 'auto' || search.mode === 'duplicate' ? search.mode : 'manual'}
    />
  );
}
