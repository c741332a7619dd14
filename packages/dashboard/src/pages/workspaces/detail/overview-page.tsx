import { useQuery } from '@tanstack/react-query';
import { Power } from 'lucide-react';
import { workspacePermissions } from '../../../api/permissions.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Facts, Section } from '../../../ui/page.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDate, formatDateTime, formatExact, formatRelative, isZeroTime } from '../../../util/time.ts';
import { agentsOf, isActive } from '../status.ts';
import { AgentCard } from './agent-card.tsx';
import { BuildProblems } from './build-problems.tsx';
import { useCurrentWorkspace } from './current.ts';
import { Deadline } from './deadline.tsx';
import { BuildHistory } from './history.tsx';
import { BuildLog, useBuildLog } from './logs.tsx';
import { Resources } from './resources.tsx';
import { Sharing } from './sharing.tsx';
import { Timeline } from './timeline-view.tsx';

/** The state of a workspace, how to connect to it, and its latest build while that matters. */
export default function OverviewPage() {
  const workspace = useCurrentWorkspace();
  const { latest_build: build } = workspace;
  const may = useQuery(workspacePermissions(workspace)).data;
  const log = useBuildLog(build);
  const agents = agentsOf(build);
  const active = isActive(build.status);
  // a build that ended well has nothing to say here
  const showsBuild = active || build.job.status !== 'succeeded' || build.status === 'deleted';
  const deleted = build.status === 'deleted';
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6 lg:grid-cols-[minmax(0,1fr)_19rem]">
      <div className="flex min-w-0 flex-col gap-5">
        {workspace.dormant_at && !deleted && (
          <Notice
            tone="warn"
            title={`Dormant since ${formatDate(workspace.dormant_at)}: nobody can start it or connect to it`}
            detail={
              workspace.deleting_at
                ? `It is deleted on ${formatDateTime(workspace.deleting_at)}. Activate it to keep it.`
                : 'Activate it to use it again.'
            }
          />
        )}
        <BuildProblems workspace={workspace} build={build} log={log} />
        {workspace.automatic_build_error && !deleted && (
          <Notice
            tone="bad"
            title={
              workspace.automatic_build_error.next_attempt_at
                ? `An automatic build could not begin. The next attempt comes ${formatRelative(workspace.automatic_build_error.next_attempt_at)}`
                : workspace.next_start_at
                  ? 'The last automatic build could not begin. The next attempt comes with the schedule'
                  : 'The last automatic build could not begin'
            }
            detail={workspace.automatic_build_error.message}
          />
        )}
        {build.status === 'running' &&
          agents.map((agent) => (
            <AgentCard
              key={agent.id}
              workspace={workspace}
              agent={agent}
              parent={agents.find(({ id }) => id === agent.parent_id)}
            />
          ))}
        {showsBuild && (
          <Section title={`Build ${build.build_number}`}>
            <BuildLog build={build} log={log} height={build.job.status === 'failed' ? 'h-80' : undefined} />
            <Timeline build={build} />
          </Section>
        )}
        {build.status === 'stopped' && !workspace.dormant_at && (
          <div className="rounded-lg border border-line bg-surface">
            <EmptyState icon={Power} title="The workspace is stopped">
              {workspace.next_start_at
                ? `It starts by itself ${formatRelative(workspace.next_start_at)}. You can start it now, too.`
                : 'Start it to use it. What the template keeps, such as the home folder, is still there.'}
            </EmptyState>
          </div>
        )}
        {!deleted && <Resources resources={build.resources} dailyCost={build.daily_cost} />}
      </div>
      <aside aria-label="About this workspace" className="flex min-w-0 flex-col gap-5">
        {!deleted && (
          <Section title="About">
            <Facts
              facts={[
                ['Owner', workspace.owner_name],
                ['Organization', workspace.organization_name],
                build.status === 'running' && [
                  'Stops',
                  <Deadline key="deadline" workspace={workspace} changeable={may?.update ?? false} />,
                ],
                workspace.next_start_at !== null && [
                  'Starts',
                  <time key="start" dateTime={workspace.next_start_at} title={formatExact(workspace.next_start_at)}>
                    {formatRelative(workspace.next_start_at)}
                  </time>,
                ],
                ['Schedule', <ScheduleLink key="schedule" workspace={workspace} />],
                ['Updates', workspace.automatic_updates === 'always' ? 'At each start' : 'By hand'],
                ['Last used', isZeroTime(workspace.last_used_at) ? 'Never' : formatRelative(workspace.last_used_at)],
                ['Created', formatDate(workspace.created_at)],
                build.daily_cost > 0 && ['Daily cost', `${build.daily_cost.toLocaleString()} credits`],
              ]}
            />
          </Section>
        )}
        {!deleted && <Sharing workspace={workspace} may={may} />}
        <Section title="Builds">
          <div className="-mx-2.5">
            <BuildHistory workspace={workspace} />
          </div>
        </Section>
        {deleted && <LinkButton to={paths.workspaces()}>Your workspaces</LinkButton>}
      </aside>
    </div>
  );
}

function ScheduleLink({ workspace }: { workspace: ReturnType<typeof useCurrentWorkspace> }) {
  const parts = [workspace.autostart_schedule && 'starts', workspace.ttl_ms && 'stops'].filter(Boolean);
  return (
    <Link to={paths.workspaceSchedule(workspace)}>
      {parts.length === 0 ? 'None' : `${parts.join(' and ')} by itself`.replace(/^./, (first) => first.toUpperCase())}
    </Link>
  );
}
