import type { Template } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { LayoutTemplate, Plus, SearchX } from 'lucide-react';
import { useEffect, useState } from 'react';
import { organizationsQuery } from '../../api/me.ts';
import { apiQuery } from '../../api/query.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { RowLink } from '../../ui/link.tsx';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, ErrorView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useSearchParams } from '../../util/route.ts';
import { formatDate, formatDuration, formatRelative, useNow } from '../../util/time.ts';
import { type Barrier, useBarriers } from './barriers.ts';
import { nameOf, useTemplateOrganizations } from './data.ts';

const SEARCH_AFTER_MS = 200;

/** The filter of the address, and the text in its field, which the address gets after a moment without typing. */
function useFilter() {
  const [{ filter = '' }, setSearch] = useSearchParams();
  const [typed, setTyped] = useState(filter);
  useEffect(() => {
    if (typed === filter) return;
    const timer = setTimeout(() => setSearch({ filter: typed || undefined }), SEARCH_AFTER_MS);
    return () => clearTimeout(timer);
  });
  return { filter, typed, setTyped };
}

export default function TemplateList() {
  const { filter, typed, setTyped } = useFilter();
  const templates = useQuery({
    ...apiQuery('GET /templates', [{ kind: 'template' }, { kind: 'organization' }], {
      query: { q: filter || undefined },
    } as never),
    placeholderData: keepPreviousData,
  });
  const organizations = useQuery(organizationsQuery).data ?? [];
  const mayCreate = (useTemplateOrganizations()?.length ?? 0) > 0;
  const go = useGo();
  const barrierOf = useBarriers(templates.data ?? []);
  const columns = columnsAt(useNow(60_000), organizations.length > 1, barrierOf);
  // the result of the search before would hide the field while the person clears it
  const none = templates.data?.length === 0 && filter === '' && !templates.isPlaceholderData;
  return (
    <Page
      title="Templates"
      description="A template describes the resources and tools of a workspace, with Terraform."
      actions={mayCreate && !none && <NewTemplateMenu />}
    >
      {!none && (
        <div className="flex max-w-xl">
          <SearchInput
            label="Search templates"
            placeholder='Search by name, or "organization:default", "deprecated:true"'
            value={typed}
            onChange={setTyped}
          />
        </div>
      )}
      {templates.isError ? (
        <Section>
          <ErrorView error={templates.error} retry={() => void templates.refetch()} />
        </Section>
      ) : none ? (
        <Section>
          <NoTemplates mayCreate={mayCreate} />
        </Section>
      ) : (
        <Section flush>
          <Table
            label="Templates"
            columns={columns}
            rows={templates.data}
            rowKey={({ id }) => id}
            onRowClick={(template) => go(paths.template(template))}
            empty={
              <EmptyState
                icon={SearchX}
                title="No template matches"
                action={<Button onClick={() => setTyped('')}>Show all templates</Button>}
              >
                Nothing matches <b className="wrap-anywhere">{filter}</b>.
              </EmptyState>
            }
          />
        </Section>
      )}
    </Page>
  );
}

function NewTemplateMenu() {
  return (
    <Menu
      trigger={
        <Button look="primary" icon={Plus}>
          New template
        </Button>
      }
    >
      <MenuItem to={paths.templateBuilder()}>With the template builder</MenuItem>
      <MenuItem to={paths.starterTemplates()}>From a starter template</MenuItem>
      <MenuItem to={paths.newTemplate({ exampleId: 'scratch' })}>From scratch</MenuItem>
      <MenuItem to={paths.newTemplate()}>Upload files</MenuItem>
    </Menu>
  );
}

function NoTemplates({ mayCreate }: { mayCreate: boolean }) {
  return (
    <EmptyState
      icon={LayoutTemplate}
      title="There are no templates yet"
      action={
        mayCreate && (
          <LinkButton to={paths.templateBuilder()} look="primary">
            Build a template
          </LinkButton>
        )
      }
    >
      {mayCreate
        ? 'Add one, and people can make their workspaces from it.'
        : 'A template administrator has to create one before you can make a workspace.'}
    </EmptyState>
  );
}

/** The columns of the list. `now` is the time that its ages count to. */
function columnsAt(
  now: number,
  showOrganization: boolean,
  barrierOf: (template: Template) => Barrier | null | undefined,
): Column<Template>[] {
  return [
    { name: 'Name', width: 'minmax(0,3fr)', cell: (template) => <NameCell template={template} /> },
    ...(showOrganization
      ? [
          {
            name: 'Organization',
            wideOnly: true,
            cell: (template: Template) => (
              <span className="truncate text-muted">
                {template.organization_display_name || template.organization_name}
              </span>
            ),
          },
        ]
      : []),
    {
      name: 'Used by',
      numeric: true,
      width: 'minmax(0,7rem)',
      wideOnly: true,
      cell: ({ active_user_count: users }) => (
        <span className={users === 0 ? 'text-faint' : 'text-muted'}>
          {users === 0 ? 'Nobody' : users === 1 ? '1 person' : `${users} people`}
        </span>
      ),
    },
    {
      name: 'Build time',
      numeric: true,
      width: 'minmax(0,7rem)',
      wideOnly: true,
      cell: (template) => {
        const p50 = template.build_time_stats['start']?.P50;
        return p50 ? (
          <span className="text-muted" title="Half of the recent starts took less time than this.">
            {formatDuration(p50)}
          </span>
        ) : (
          <span className="text-faint">No builds</span>
        );
      },
    },
    {
      name: 'Updated',
      width: 'minmax(0,8rem)',
      wideOnly: true,
      cell: ({ updated_at }) => (
        <time className="truncate text-muted" dateTime={updated_at} title={formatDate(updated_at)}>
          {formatRelative(updated_at, now)}
        </time>
      ),
    },
    {
      name: '',
      label: 'Actions',
      width: '9.5rem',
      align: 'end',
      wideOnly: true,
      cell: (template) => <CreateCell template={template} barrier={barrierOf(template)} />,
    },
  ];
}

function CreateCell({ template, barrier }: { template: Template; barrier: Barrier | null | undefined }) {
  // the name has the badge of a deprecated one
  if (barrier === undefined || template.deprecated) return null;
  if (barrier !== null)
    return (
      <span className="text-faint" title={`${barrier.title}. ${barrier.detail}`}>
        View only
      </span>
    );
  return (
    <LinkButton to={paths.createWorkspace(template)} size="sm">
      Create workspace
    </LinkButton>
  );
}

function NameCell({ template }: { template: Template }) {
  return (
    <div className="flex min-w-0 items-center gap-3">
      <Avatar name={nameOf(template)} src={template.icon} size={32} square />
      <div className="min-w-0">
        <div className="flex min-w-0 items-center gap-2">
          <RowLink to={paths.template(template)} className="truncate font-medium">
            {nameOf(template)}
          </RowLink>
          {template.deprecated && <Badge tone="warn">Deprecated</Badge>}
        </div>
        {template.description && <div className="truncate text-muted text-sm">{template.description}</div>}
      </div>
    </div>
  );
}
