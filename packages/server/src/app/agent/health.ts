import type { WorkspaceAgent } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import type { Db } from '../../db/connect.ts';
import { type AgentState, failedScripts, type LaterBuild, laterBuilds } from '../../db/queries/agents.ts';
import type { AgentRow } from '../../db/rows.ts';
import { time } from '../values/time.ts';
import { type AgentSight, agentSight } from './status.ts';

/** Why an agent is unhealthy, as far as it is known. */
export interface Evidence {
  /** The last script that failed. */
  script?: { name: string; stage: string; status: string; exitCode: number };
  /** Why the agent's build no longer runs. */
  ended?: string;
}

const SCRIPT_STATES: readonly string[] = ['start_error', 'start_timeout', 'shutdown_error', 'shutdown_timeout'];
const STAGES: Record<string, string> = { start: 'start', stop: 'stop', cron: 'scheduled' };

/** Finds reasons for unhealthy agents. Needs no query for healthy ones. */
export async function evidenceFor(db: Db, agents: readonly AgentRow[], now: Date): Promise<Map<string, Evidence>> {
  const found = new Map<string, Evidence>();
  const of = (id: string) => {
    const evidence = found.get(id) ?? {};
    found.set(id, evidence);
    return evidence;
  };
  const scripted = agents.filter(({ lifecycle_state: state }) => SCRIPT_STATES.includes(state)).map(({ id }) => id);
  const away = agents.filter((agent) => ['disconnected', 'timeout'].includes(agentSight(agent, now).status));
  const [ends, builds] = await Promise.all([
    failedScripts(db, scripted),
    laterBuilds(
      db,
      away.map(({ id }) => id),
    ),
  ]);
  for (const { agent_id: id, name, stage, status, exit_code: exitCode } of ends) {
    of(id).script = { name, stage, status, exitCode };
  }
  for (const build of builds) of(build.agent_id).ended = `the workspace ${endWords(build)}`;
  return found;
}

function endWords({ transition, done, at }: LaterBuild): string {
  const words = { start: 'restarted', stop: 'stopped', delete: 'deleted' }[transition];
  return done ? `was ${words} at ${time(at)}` : `is being ${words}`;
}

/**
 * What happened to the workspace of an agent that will not reconnect, as the text after "The workspace". Undefined when
 * the agent may reconnect.
 */
export async function endOfAgent(db: Db, agentId: string): Promise<string | undefined> {
  const [build] = await laterBuilds(db, [agentId]);
  return build && endWords(build);
}

function scriptWords({ name, stage, status, exitCode }: NonNullable<Evidence['script']>): string {
  const what = `${ownValue(STAGES, stage) ?? stage} script ${JSON.stringify(name)}`;
  return status === 'timed_out' ? `${what} did not end in time` : `${what} ended with status ${exitCode}`;
}

/** Whether an agent is healthy, and if not, the reason for people. */
export function agentHealth(agent: AgentState, sight: AgentSight, evidence: Evidence = {}): WorkspaceAgent['health'] {
  const { lifecycle_state: life } = agent;
  const bad = (reason: string): WorkspaceAgent['health'] => ({ healthy: false, reason });
  const because = evidence.ended ? ` (${evidence.ended})` : '';
  switch (sight.status) {
    case 'timeout':
      return bad(
        `agent never connected since ${time(agent.created_at)}, more than ${agent.connection_timeout_seconds} s ago${because}`,
      );
    case 'connecting':
      // as upstream: an agent that still has time to connect is healthy
      return { healthy: true, reason: `agent has not connected yet, expected since ${time(agent.created_at)}` };
    case 'disconnected':
      return bad(
        `agent ${sight.silent ? 'lost its heartbeat' : 'closed its connection'} at ${time(sight.disconnectedAt!)}${because}`,
      );
    case 'connected':
  }
  const script = evidence.script && scriptWords(evidence.script);
  if (life === 'start_error') return bad(`agent's ${script ?? 'start script ended with an error'}`);
  if (life === 'shutting_down') return bad('agent is shutting down');
  if (life === 'shutdown_error') return bad(`agent has shut down: ${script ?? 'a stop script ended with an error'}`);
  if (life === 'shutdown_timeout') return bad(`agent has shut down: ${script ?? 'a stop script did not end in time'}`);
  if (life === 'off') return bad('agent has shut down');
  // slow is not unhealthy
  if (life === 'start_timeout')
    return { healthy: true, reason: `agent's ${script ?? 'start script did not end in time'}` };
  if (agent.resource_alerts !== '') return { healthy: true, reason: agent.resource_alerts };
  if (life === 'starting') return { healthy: true, reason: 'agent still runs its start scripts' };
  return { healthy: true };
}
