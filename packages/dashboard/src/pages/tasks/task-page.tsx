import type { Workspace, WorkspaceAppStatus } from '@ropewalk/contract';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { useQuery } from '@tanstack/react-query';
import { Power } from 'lucide-react';
import { workspacePermissions } from '../../api/permissions.ts';
import { useAppServer } from '../../regions/store.ts';
import { Status } from '../../ui/badge.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import type { JobLogHandle } from '../../ui/job-log.ts';
import { ExternalLink } from '../../ui/link.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { EmptyState, ErrorView, SkeletonLines } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';
import { formatExact, formatRelative, useNow } from '../../util/time.ts';
import { ACTIONS, isPermitted, useWorkspaceActions } from '../workspaces/actions.tsx';
import { AppLink, appName } from '../workspaces/app-link.tsx';
import { appAddress } from '../workspaces/connect.ts';
import { BuildProblems } from '../workspaces/detail/build-problems.tsx';
import { BuildLog, useBuildLog } from '../workspaces/detail/logs.tsx';
import { buildParametersQuery, useWorkspace } from '../workspaces/queries.ts';
import { actionsOf, isActive, isReachable } from '../workspaces/status.ts';
import { statusLook, type TaskApp, taskApps, taskLook, taskStatuses } from './task.ts';

/** One task: what was asked, how far it is, and the app of its coding agent. */
export default function TaskPage() {
  const { owner, workspace: name } = useRouteParams<'owner' | 'workspace'>();
  const query = useWorkspace(owner, name);
  if (query.data) return <Task workspace={query.data} />;
  if (query.isError)
    return (
      <ErrorView
        error={query.error}
        retry={() => void query.refetch()}
        isPage
        notFound={{ title: 'Task not found', to: paths.tasks(), all: 'Your tasks' }}
      />
    );
  return (
    <Page title={`${owner}/${name}`}>
      <SkeletonLines lines={8} />
    </Page>
  );
}

function Task({ workspace }: { workspace: Workspace }) {
  const go = useGo();
  const actions = useWorkspaceActions({ onDeleted: () => go(paths.tasks()) });
  const may = useQuery(workspacePermissions(workspace)).data;
  const prompt = useQuery(buildParametersQuery(workspace.latest_build.id)).data?.find(
    ({ name }) => name === PROMPT_PARAMETER,
  )?.value;
  const log = useBuildLog(workspace.latest_build);
  const look = taskLook(workspace);
  const [shown, ...others] = taskApps(workspace);
  const statuses = taskStatuses(workspace);
  const possible = actionsOf(workspace).filter((action) => isPermitted(action, may));
  return (
    <Page
      title={`${workspace.owner_name}/${workspace.name}`}
      width="full"
      description={
        <span aria-live="polite">
          <Status tone={look.tone}>{look.text}</Status>
        </span>
      }
      actions={
        <>
          <LinkButton to={paths.workspace(workspace)}>Workspace</LinkButton>
          {possible.map((action) => (
            <Button
              key={action}
              icon={ACTIONS[action].icon}
              pending={actions.pending === action}
              disabled={actions.pending !== undefined}
              onClick={() => actions.run(workspace, action)}
            >
              {ACTIONS[action].name}
            </Button>
          ))}
        </>
      }
    >
      <BuildProblems workspace={workspace} build={workspace.latest_build} log={log} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <Main workspace={workspace} shown={shown} log={log} />
        <aside aria-label="About this task" className="flex min-w-0 flex-col gap-5">
          {prompt && (
            <Section title="Prompt">
              <p className="max-h-60 overflow-y-auto whitespace-pre-wrap break-words">{prompt}</p>
            </Section>
          )}
          <Section title="Progress">
            {statuses.length > 0 ? (
              <ol className="flex flex-col gap-3">
                {statuses.map((status) => (
                  <Progress key={status.id} status={status} />
                ))}
              </ol>
            ) : (
              <p className="text-muted">The coding agent has reported nothing yet.</p>
            )}
          </Section>
          {others.length > 0 && (
            <Section title="Apps">
              <div className="flex flex-wrap gap-2">
                {others.map(({ app, agent }) => (
                  <AppLink
                    key={app.id}
                    app={app}
                    agent={agent}
                    workspace={workspace}
                    disabled={!isReachable(agent) && !app.external}
                  />
                ))}
              </div>
            </Section>
          )}
        </aside>
      </div>
      {actions.dialogs}
    </Page>
  );
}

function Progress({ status }: { status: WorkspaceAppStatus }) {
  const now = useNow(60_000);
  const look = statusLook(status);
  return (
    <li className="min-w-0">
      <div className="flex flex-wrap items-center justify-between gap-x-3">
        <Status tone={look.tone}>{look.text}</Status>
        <time className="text-muted text-sm" dateTime={status.created_at} title={formatExact(status.created_at)}>
          {formatRelative(status.created_at, now)}
        </time>
      </div>
      {status.message && <p className="mt-0.5 break-words">{status.message}</p>}
      {/^https?:/.test(status.uri) && (
        <ExternalLink href={status.uri} className="break-all">
          {status.uri}
        </ExternalLink>
      )}
    </li>
  );
}

/** The build until the workspace runs, then the app that the template shows. */
function Main({ workspace, shown, log }: { workspace: Workspace; shown: TaskApp | undefined; log: JobLogHandle }) {
  const server = useAppServer();
  const { latest_build: build } = workspace;
  if (isActive(build.status) || build.job.status === 'failed')
    return (
      <Section title={`Build ${build.build_number}`}>
        <BuildLog build={build} log={log} />
      </Section>
    );
  if (build.status !== 'running')
    return (
      <Section>
        <EmptyState icon={Power} title="The workspace is stopped">
          Start it to continue the task.
        </EmptyState>
      </Section>
    );
  if (!shown)
    return (
      <Section>
        <EmptyState title="The template shows no app for its tasks">Open the workspace to connect to it.</EmptyState>
      </Section>
    );
  const { app, agent } = shown;
  const address = appAddress(app, workspace, agent, server);
  // an app without a separate host has this page's origin: inside the page, its scripts could act as the person
  const embedded = app.subdomain && !app.external && !app.command && 'href' in address && isReachable(agent);
  if (!embedded)
    return (
      <Section>
        <EmptyState
          title={appName(app)}
          action={<AppLink app={app} agent={agent} workspace={workspace} disabled={!isReachable(agent)} />}
        >
          {isReachable(agent)
            ? 'The app opens in a separate tab, because it has no host name.'
            : 'The app opens once the workspace is connected.'}
        </EmptyState>
      </Section>
    );
  return (
    <iframe
      title={appName(app)}
      src={address.href}
      allow="clipboard-read; clipboard-write"
      className="h-[calc(100dvh-14rem)] min-h-96 w-full rounded-lg border border-line bg-surface"
    />
  );
}
