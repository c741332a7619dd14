import type { AgentLog, PostLogSourceRequest, WorkspaceAgentLog, WorkspaceAgentLogSource } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { LogNumber } from '@ropewalk/wire/log-sequence';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import {
  type AgentLogLine,
  type AgentLogRow,
  agentLogs,
  insertAgentLogs,
  insertLogSource,
  insertNumberedAgentLogs,
  upsertLogSource,
} from '../../db/queries/agent-logs.ts';
import { agentById } from '../../db/queries/agents.ts';
import { latestBuildNumber } from '../../db/queries/builds.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findReadableAgent } from '../find/agent.ts';
import type { Source } from '../follow/follow.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';

const PAGE = 1_000;
/** The maximum number of log sources of one agent, more than the number of scripts in any template. */
const MAX_SOURCES = 200;
/** The maximum number of lines of one batch. Upstream's agents send batches of 1 MiB, which fit. */
const MAX_LINES = 50_000;

function toLog(row: AgentLogRow): WorkspaceAgentLog {
  return {
    id: row.id,
    created_at: time(row.created_at),
    output: row.output,
    level: row.level,
    source_id: row.log_source_id,
  };
}

export async function listAgentLogs(
  ctx: Ctx,
  agentId: string,
  range: { after?: number; before?: number },
): Promise<WorkspaceAgentLog[]> {
  return (await agentLogs(ctx.sql, agentId, range)).map(toLog);
}

/** An agent's log as it grows, a JSON list a message. It ends when a newer build has replaced the agent. */
export function agentLogSource(ctx: Ctx, agent: AgentIdentity, after = 0): Source {
  let last = after;
  return {
    permission: (now) => findReadableAgent(now, agent.id),
    subscribe: (wake) => {
      const off = [
        ctx.events.on('agent_logs', (event) => event.agent_id === agent.id && wake()),
        ctx.events.on('workspace_changed', (event) => event.workspace_id === agent.workspace_id && wake()),
      ];
      return () => {
        for (const stop of off) stop();
      };
    },
    async next() {
      const current = await agentById(ctx.sql, agent.id);
      const newest = await latestBuildNumber(ctx.sql, agent.workspace_id);
      const logs = await agentLogs(ctx.sql, agent.id, { after: last, limit: PAGE });
      last = logs.at(-1)?.id ?? last;
      return {
        messages: logs.length > 0 ? [JSON.stringify(logs.map(toLog))] : [],
        more: logs.length === PAGE,
        end: logs.length < PAGE && (!current || newest > agent.build_number),
      };
    },
  };
}

export async function createLogSource(
  ctx: Ctx,
  agent: ConnectedAgent<AgentIdentity>,
  input: PostLogSourceRequest,
): Promise<WorkspaceAgentLogSource> {
  const id = input.id && isUuid(input.id) ? input.id : crypto.randomUUID();
  const source = { id, name: input.display_name ?? '', icon: input.icon ?? '' };
  const row = await upsertLogSource(ctx.sql, agent, source, MAX_SOURCES);
  if (!row) throw new AppError('conflict', `An agent can have at most ${MAX_SOURCES} log sources.`);
  return { ...row, created_at: time(row.created_at) };
}

/** Upstream's REST route for logs, used by agents older than the stream. */
export async function patchAgentLogs(
  ctx: Ctx,
  agent: ConnectedAgent<AgentIdentity>,
  sourceId: string | undefined,
  logs: AgentLog[],
): Promise<void> {
  if (sourceId !== undefined && !isUuid(sourceId)) throw new AppError('invalid', 'log_source_id must be a UUID.');
  const lines = logs.map((line) => ({ level: line.level ?? 'info', output: line.output ?? '' }));
  await writeAgentLogs(ctx, agent, sourceId, lines);
}

const EXTERNAL = { id: '3b579bf4-1ed8-4b99-87a8-e9a1e3410410', name: 'External', icon: '/emojis/1f310.png' };

/**
 * Stores lines of an agent's log and notifies its readers. Lines without a source get the source "External".
 * @throws AppError `invalid` for more lines than an agent sends at a time
 */
export async function writeAgentLogs(
  { sql, events }: Services,
  agent: ConnectedAgent<AgentIdentity>,
  sourceId: string | undefined,
  lines: readonly AgentLogLine[],
  /** The number of each line, from our own agents: lines that they send again are stored once. */
  numbers?: readonly LogNumber[],
): Promise<void> {
  if (lines.length === 0) return;
  if (lines.length > MAX_LINES) {
    throw new AppError('invalid', `A batch of logs can have at most ${MAX_LINES} lines, not ${lines.length}.`);
  }
  if (!sourceId) await insertLogSource(sql, agent, EXTERNAL);
  if (numbers) await insertNumberedAgentLogs(sql, agent, sourceId ?? EXTERNAL.id, lines, numbers);
  else await insertAgentLogs(sql, agent, sourceId ?? EXTERNAL.id, lines);
  events.publishSoon('agent_logs', { agent_id: agent.id });
}
