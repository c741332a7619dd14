import type { Workspace } from '@ropewalk/contract';
import { isOutdated } from '../../../util/outdated.ts';
import { formatRelative, isZeroTime } from '../../../util/time.ts';
import { agentsOf, isActive, unhealthyReason, workspaceLook } from '../status.ts';

/** What every message of Terraform's end begins with. */
const PREFIX = /^terraform \w+: exit status \d+: /;

/** The line below the state of a workspace: the reason, what it waits for, or what comes next. */
export function stateDetail(workspace: Workspace, now: number): string | undefined {
  const { latest_build: build, deleting_at: deletingAt, dormant_at: dormantAt } = workspace;
  const { pending_reason: reason, error, completed_at: endedAt } = build.job;
  const since = (words: string, when: string | undefined) => when && `${words} ${formatRelative(when, now)}`;
  if (build.status === 'pending' && reason && reason.reason !== 'starting') {
    return reason.reason === 'provisioners_busy'
      ? `Queue: ${reason.queue_position} of ${reason.queue_size}`
      : 'No provisioner daemon takes it';
  }
  if (isActive(build.status)) return since(`Build ${build.build_number}, begun`, build.created_at);
  if (dormantAt) return since(deletingAt ? 'Deletion' : 'Not used since', deletingAt ?? dormantAt);
  if (workspace.automatic_build_error) return 'An automatic build cannot begin';
  if (build.status === 'failed' && error) return error.replace(PREFIX, '');
  if (build.status === 'running') {
    const look = workspaceLook(workspace);
    if (look.tone === 'busy') return 'Waits for its agent';
    const unhealthy = workspace.health.healthy ? undefined : unhealthyReason(workspace, now);
    if (unhealthy) return unhealthy;
    return isZeroTime(build.deadline) ? since('Started', endedAt) : since('Stops', build.deadline);
  }
  if (build.status === 'stopped' && workspace.next_start_at) return since('Starts', workspace.next_start_at);
  return since(build.status === 'canceled' ? 'Canceled' : 'Stopped', endedAt);
}

/** Whether an agent of a running workspace has another version than the server. A restart changes that. */
export const hasOtherAgent = ({ latest_build: build }: Workspace, serverVersion: string | undefined): boolean =>
  build.status === 'running' && agentsOf(build).some((agent) => isOutdated(agent, serverVersion));
