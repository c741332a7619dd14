import type { AgentLog, PostLogSourceRequest, WorkspaceAgentLog, WorkspaceAgentLogSource } from '@platform/contract';
import { AppError } from '@platform/kit';
import type { LogNumber } from '@platform/wire/log-sequence';
import type { WebSocketConnection } from '@platform/wire/websocket';
import {
  type AgentIdentity,
  type AgentLogLine,
  agentById,
  insertAgentLogs,
  insertLogSource,
  insertNumberedAgentLogs,
} from '../../db/queries/agents.ts';
import type { Ctx, Services } from '../context.ts';
import { isUuid } from '../ids.ts';
import { follow } from '../job/logs.ts';
import { time } from '../user/convert.ts';
import type { LogSourceRow } from './convert.ts';
import { findReadableAgent } from './find.ts';

const PAGE = 1_000;
/** Of one agent: more than a template has scripts. */
const MOST_SOURCES = 200;
/** At once: more than the batches of published agents, of 1 MiB, can hold. */
const MOST_LINES = 50_000;

interface LogRow {
  id: number;
  created_at: Date;
  level: WorkspaceAgentLog['level'];
  output: string;
  log_source_id: string;
}

async function rows(
  ctx: Ctx,
  agentId: string,
  after: number,
  limit: number,
  before?: number,
): Promise<WorkspaceAgentLog[]> {
  const found = await ctx.sql<LogRow[]>`SELECT id, created_at, level, output, log_source_id FROM workspace_agent_logs
    WHERE agent_id = ${agentId} AND id > ${after} AND (${before ?? null}::bigint IS NULL OR id < ${before ?? null}::bigint)
    ORDER BY id LIMIT ${limit}`;
  return found.map((row) => ({
    id: row.id,
    created_at: time(row.created_at),
    output: row.output,
    level: row.level,
    source_id: row.log_source_id,
  }));
}

export async function listAgentLogs(
  ctx: Ctx,
  agentId: string,
  range: { after?: number; before?: number },
): Promise<WorkspaceAgentLog[]> {
  return rows(ctx, agentId, range.after ?? 0, 100_000, range.before);
}

/** Sends an agent's log as it grows, a JSON list a message; ends when a newer build has replaced the agent. */
export async function streamAgentLogs(
  ctx: Ctx,
  socket: WebSocketConnection,
  agent: AgentIdentity,
  after = 0,
): Promise<void> {
  let last = after;
  await follow(ctx, socket, {
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
      const [newest] = await ctx.sql<{ build_number: number }[]>`
        SELECT max(build_number) AS build_number FROM workspace_builds WHERE workspace_id = ${agent.workspace_id}`;
      const logs = await rows(ctx, agent.id, last, PAGE);
      last = logs.at(-1)?.id ?? last;
      return {
        messages: logs.length > 0 ? [JSON.stringify(logs)] : [],
        more: logs.length === PAGE,
        end: logs.length < PAGE && (!current || newest!.build_number > agent.build_number),
      };
    },
  });
}

export async function createLogSource(
  ctx: Ctx,
  agent: AgentIdentity,
  input: PostLogSourceRequest,
): Promise<WorkspaceAgentLogSource> {
  const id = input.id && isUuid(input.id) ? input.id : crypto.randomUUID();
  const [row] = await ctx.sql<LogSourceRow[]>`
    INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
    SELECT ${id}::uuid, ${agent.id}::uuid, ${input.display_name ?? ''}, ${input.icon ?? ''}
    WHERE (SELECT count(*) FROM workspace_agent_log_sources WHERE workspace_agent_id = ${agent.id} AND id <> ${id}) < ${MOST_SOURCES}
    ON CONFLICT (workspace_agent_id, id) DO UPDATE SET display_name = excluded.display_name, icon = excluded.icon RETURNING *`;
  if (!row) throw new AppError('conflict', `An agent can have at most ${MOST_SOURCES} log sources.`);
  return { ...row, created_at: time(row.created_at) };
}

/** The published REST way of writing logs, of agents older than the stream. */
export async function patchAgentLogs(
  ctx: Ctx,
  agent: AgentIdentity,
  sourceId: string | undefined,
  logs: AgentLog[],
): Promise<void> {
  if (sourceId !== undefined && !isUuid(sourceId)) throw new AppError('invalid', 'log_source_id must be a uuid.');
  const lines = logs.map((line) => ({ level: line.level ?? 'info', output: line.output ?? '' }));
  await writeAgentLogs(ctx, agent.id, sourceId, lines);
}

const EXTERNAL = { id: '3b579bf4-1ed8-4b99-87a8-e9a1e3410410', name: 'External', icon: '/emojis/1f310.png' };

/**
 * Stores lines of an agent and tells who follows its log. Without a source they are of the one called External.
 * Throws `invalid` where they are more than an agent sends.
 */
export async function writeAgentLogs(
  { sql, events }: Services,
  agentId: string,
  sourceId: string | undefined,
  lines: readonly AgentLogLine[],
  /** Of each line, from agents of ours: what is sent again is stored once. */
  numbers?: readonly LogNumber[],
): Promise<void> {
  if (lines.length === 0) return;
  if (lines.length > MOST_LINES) {
    throw new AppError('invalid', `A batch of logs has at most ${MOST_LINES} lines, not ${lines.length}.`);
  }
  if (!sourceId) await insertLogSource(sql, agentId, EXTERNAL);
  if (numbers) await insertNumberedAgentLogs(sql, agentId, sourceId ?? EXTERNAL.id, lines, numbers);
  else await insertAgentLogs(sql, agentId, sourceId ?? EXTERNAL.id, lines);
  events.publishSoon('agent_logs', { agent_id: agentId });
}
