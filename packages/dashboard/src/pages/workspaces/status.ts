import type { Workspace, WorkspaceAgent, WorkspaceBuild } from '@ropewalk/contract';
import type { Tone } from '../../ui/classes.ts';
import { formatRelative } from '../../util/time.ts';

export interface StateLook {
  tone: Tone;
  text: string;
}

const BUILD_LOOKS: Record<WorkspaceBuild['status'], StateLook> = {
  pending: { tone: 'busy', text: 'Pending' },
  starting: { tone: 'busy', text: 'Starting' },
  running: { tone: 'good', text: 'Running' },
  stopping: { tone: 'busy', text: 'Stopping' },
  stopped: { tone: 'neutral', text: 'Stopped' },
  failed: { tone: 'bad', text: 'Failed' },
  canceling: { tone: 'busy', text: 'Canceling' },
  canceled: { tone: 'warn', text: 'Canceled' },
  deleting: { tone: 'busy', text: 'Deleting' },
  deleted: { tone: 'neutral', text: 'Deleted' },
};

export const buildLook = (build: Pick<WorkspaceBuild, 'status'>): StateLook => BUILD_LOOKS[build.status];

/** The state of a workspace as one word: its latest build's, except where its agents or its dormancy say more. */
export function workspaceLook(workspace: Workspace): StateLook {
  const { latest_build: build } = workspace;
  if (workspace.dormant_at && !isActive(build.status)) return { tone: 'warn', text: 'Dormant' };
  if (build.restart_pending && build.status !== 'pending') return { tone: 'busy', text: 'Restarting' };
  const starting = build.status === 'running' ? agentsOf(build).filter(isStarting) : [];
  if (starting.length > 0)
    return starting.every((agent) => awaitsPerson(build, agent)) ? AWAITS_PERSON : { tone: 'busy', text: 'Starting' };
  if (build.status === 'running' && !workspace.health.healthy) return { tone: 'warn', text: 'Unhealthy' };
  return buildLook(build);
}

/** Whether a build waits or is under way. */
export const isActive = (status: WorkspaceBuild['status']): boolean => BUILD_LOOKS[status].tone === 'busy';

/** The agents of a build, those of dev containers included. */
export const agentsOf = (build: Pick<WorkspaceBuild, 'resources'>): WorkspaceAgent[] =>
  build.resources.flatMap((resource) => resource.agents ?? []);

const isStarting = (agent: WorkspaceAgent) =>
  agent.status === 'connecting' || (agent.status === 'connected' && /^(created|starting)$/.test(agent.lifecycle_state));

/** Whether the agent runs on a machine that the template does not create. */
export const isExternal = ({ resources }: Pick<WorkspaceBuild, 'resources'>, { id }: WorkspaceAgent): boolean =>
  resources.some(({ type, agents = [] }) => type === 'coder_external_agent' && agents.some((agent) => agent.id === id));

/** Whether a person has yet to start the agent. */
const awaitsPerson = (build: Pick<WorkspaceBuild, 'resources'>, agent: WorkspaceAgent) =>
  agent.status === 'connecting' && isExternal(build, agent);

const AWAITS_PERSON: StateLook = { tone: 'warn', text: 'Not connected' };

/** Whether programs can connect to the agent. */
export const isReachable = (agent: WorkspaceAgent): boolean => agent.status === 'connected';

/** The state of an agent with its explanation. `external`: see `isExternal`. */
export function agentLook(agent: WorkspaceAgent, external = false): StateLook & { explanation: string } {
  const { status, lifecycle_state: lifecycle } = agent;
  if (external && status === 'connecting')
    return { ...AWAITS_PERSON, explanation: 'No machine has connected as this agent yet.' };
  if (external && status === 'disconnected')
    return {
      tone: 'bad',
      text: 'Disconnected',
      explanation: 'The agent lost its connection. It reconnects by itself if it still runs on its machine.',
    };
  if (status === 'connecting')
    return { tone: 'busy', text: 'Connecting', explanation: 'The agent is starting in the workspace.' };
  if (status === 'timeout')
    return {
      tone: 'warn',
      text: 'Not connected',
      explanation:
        'The agent has not connected in time. It keeps trying. Check that the workspace can reach the server, and read the build log.',
    };
  if (status === 'disconnected')
    return {
      tone: 'bad',
      text: 'Disconnected',
      explanation: 'The agent lost its connection. It reconnects by itself if the workspace still runs.',
    };
  switch (lifecycle) {
    case 'created':
    case 'starting':
      return { tone: 'busy', text: 'Starting', explanation: 'Startup scripts are running.' };
    case 'start_timeout':
      return { tone: 'warn', text: 'Slow start', explanation: 'Startup scripts take longer than the template allows.' };
    case 'start_error':
      return {
        tone: 'warn',
        text: 'Startup failed',
        explanation: 'A startup script failed, so something may be missing. The agent log has its output.',
      };
    case 'shutting_down':
      return { tone: 'busy', text: 'Shutting down', explanation: 'Shutdown scripts are running.' };
    case 'shutdown_timeout':
    case 'shutdown_error':
      return { tone: 'warn', text: 'Shutdown failed', explanation: 'A shutdown script failed or took too long.' };
    case 'off':
      return { tone: 'neutral', text: 'Off', explanation: 'The agent has shut down.' };
    default:
      return { tone: 'good', text: 'Ready', explanation: '' };
  }
}

/** Why a running workspace is not healthy, in a few words. */
export function unhealthyReason(workspace: Workspace, now: number): string | undefined {
  const failing = new Set(workspace.health.failing_agents);
  const agent = agentsOf(workspace.latest_build).find(({ id }) => failing.has(id));
  if (!agent) return undefined;
  const { name, status, lifecycle_state: lifecycle, disconnected_at: lostAt } = agent;
  if (status === 'timeout') return `Agent ${name} never connected`;
  if (status === 'disconnected')
    return lostAt ? `Agent ${name} lost ${formatRelative(lostAt, now)}` : `Agent ${name} lost its connection`;
  if (lifecycle === 'start_error') return `A startup script of ${name} failed`;
  return `Agent ${name}: ${agentLook(agent).text.toLowerCase()}`;
}

export type ActionName = 'start' | 'stop' | 'restart' | 'update' | 'cancel' | 'retry' | 'activate' | 'delete';

/** What a person can do with a workspace now. The first is the most useful one. */
export function actionsOf(workspace: Workspace): ActionName[] {
  const { latest_build: build, outdated } = workspace;
  if (build.status === 'deleted') return [];
  if (isActive(build.status)) return ['cancel'];
  if (workspace.dormant_at) return ['activate', 'delete'];
  const mustUpdate = outdated && workspace.template_require_active_version;
  const newer: ActionName[] = outdated ? ['update'] : [];
  switch (build.status) {
    case 'running':
      return outdated ? ['update', 'stop', 'restart', 'delete'] : ['stop', 'restart', 'delete'];
    case 'failed':
    case 'canceled':
      if (build.transition !== 'start') return ['retry', ...newer, 'start', 'delete'];
      return mustUpdate ? ['update', 'stop', 'delete'] : ['retry', ...newer, 'stop', 'delete'];
    default:
      return mustUpdate ? ['update', 'delete'] : ['start', ...newer, 'delete'];
  }
}

/** The action that a row of a list offers in one click. Undefined while a build is under way. */
export function mainActionOf(workspace: Workspace): ActionName | undefined {
  const { status } = workspace.latest_build;
  if (isActive(status)) return undefined;
  // an update can end programs that run, so it stays in the menu
  return status === 'running' && !workspace.dormant_at ? 'stop' : actionsOf(workspace)[0];
}
