import type { Workspace } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { ListTodo, Lock } from 'lucide-react';
import { apiQuery } from '../../api/query.ts';
import { Status } from '../../ui/badge.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { RowLink } from '../../ui/link.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { LinkTabs } from '../../ui/tabs.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useSearchParams } from '../../util/route.ts';
import { formatExact, formatRelative, useNow } from '../../util/time.ts';
import { useBarriers } from '../templates/barriers.ts';
import { workspacesQuery } from '../workspaces/queries.ts';
import { PromptForm } from './prompt-form.tsx';
import { promptsQuery, taskLook } from './task.ts';

const taskTemplates = apiQuery('GET /templates', [{ kind: 'template' }], {
  query: { q: 'has-ai-task:true deprecated:false' },
} as never);

/** The tasks of a person, and the form of a new one. */
export default function TaskList() {
  const [{ owner }] = useSearchParams();
  const everyone = owner === 'all';
  const templates = useQuery(taskTemplates);
  const barrierOf = useBarriers(templates.data ?? []);
  const barriers = templates.data?.map(barrierOf);
  const usable = templates.data?.filter((_, at) => barriers?.[at] === null);
  const found = useQuery({
    ...workspacesQuery(`has-ai-task:true${everyone ? '' : ' owner:me'}`),
    placeholderData: keepPreviousData,
  });
  const tasks = found.data?.workspaces;
  const prompts = useQuery({
    ...promptsQuery((tasks ?? []).map(({ latest_build: build }) => build.id)),
    placeholderData: keepPreviousData,
  }).data?.prompts;
  const go = useGo();
  const now = useNow(60_000);
  const columns: Column<Workspace>[] = [
    {
      name: 'Task',
      width: 'minmax(0,3fr)',
      cell: (task) => (
        <div className="min-w-0">
          <RowLink to={paths.task(task)} className="block truncate font-medium">
            {prompts?.[task.latest_build.id] || task.name}
          </RowLink>
          <div className="truncate text-muted text-sm">
            {everyone ? `${task.owner_name}/${task.name}` : task.name} ·{' '}
            {task.template_display_name || task.template_name}
          </div>
        </div>
      ),
    },
    { name: 'State', width: 'minmax(0,2fr)', cell: (task) => <StateCell task={task} /> },
    {
      name: 'Created',
      width: 'minmax(0,8rem)',
      wideOnly: true,
      cell: ({ created_at }) => (
        <time className="truncate text-muted" dateTime={created_at} title={formatExact(created_at)}>
          {formatRelative(created_at, now)}
        </time>
      ),
    },
  ];
  // without a template for tasks, the form above says what to do
  const nothing = templates.data?.length === 0 && tasks?.length === 0 && !everyone;
  return (
    <Page title="Tasks" description="A coding agent works on a task in a separate workspace.">
      {templates.isError ? (
        <ErrorView error={templates.error} retry={() => void templates.refetch()} />
      ) : (
        <Section title="New task">
          {usable === undefined || barriers?.includes(undefined) ? (
            <SkeletonLines lines={4} />
          ) : usable.length > 0 ? (
            <PromptForm templates={usable} />
          ) : barriers?.[0] ? (
            <EmptyState icon={Lock} title="You cannot start tasks">
              {barriers[0].detail}
            </EmptyState>
          ) : (
            <EmptyState
              icon={ListTodo}
              title="No template has tasks"
              action={<LinkButton to={paths.templates()}>Templates</LinkButton>}
            >
              A template has tasks if it declares a coder_ai_task.
            </EmptyState>
          )}
        </Section>
      )}
      {!nothing && (
        <>
          <LinkTabs
            label="Tasks"
            tabs={[
              { to: paths.tasks(), name: 'Mine', active: !everyone },
              { to: paths.tasks('all'), name: 'All', active: everyone },
            ]}
          />
          {found.isError ? (
            <ErrorView error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Section flush>
              <Table
                label="Tasks"
                columns={columns}
                rows={tasks}
                rowKey={({ id }) => id}
                onRowClick={(task) => go(paths.task(task))}
                empty={
                  <EmptyState icon={ListTodo} title="There are no tasks yet">
                    Describe one above, and its workspace appears here.
                  </EmptyState>
                }
              />
            </Section>
          )}
        </>
      )}
    </Page>
  );
}

function StateCell({ task }: { task: Workspace }) {
  const look = taskLook(task);
  return (
    <div className="min-w-0">
      <Status tone={look.tone}>{look.text}</Status>
      {task.latest_app_status?.message && (
        <div className="truncate text-muted text-sm">{task.latest_app_status.message}</div>
      )}
    </div>
  );
}
