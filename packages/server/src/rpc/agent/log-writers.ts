import { AppError } from '@ropewalk/kit';
import type { DrpcHandlers } from '@ropewalk/wire/drpc';
import type { Agent } from '@ropewalk/wire/proto/agent';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { Services } from '../../app/context/context.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { mayReport } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';

type AgentCalls = DrpcHandlers<typeof Agent>;

/** Connections of log writers for one agent. A newer one ends the oldest. */
const MAX_LOG_WRITERS = 4;

/**
 * The connections with an agent's token that are not the agent's: the log streamer for Kubernetes writes the events of
 * a pod to the log of the agent that will run in it. They may write logs and nothing else, so they neither show the
 * agent as connected nor end its own connection.
 */
export interface LogWriters {
  /** Keeps a connection until the returned function is called. It ends when a newer build replaces the agent. */
  add(agent: ConnectedAgent<AgentIdentity>, session: YamuxSession): () => void;
  close(): void;
}

export function createLogWriters({ events }: Services): LogWriters {
  const kept = new Map<string, { workspaceId: string; sessions: Set<YamuxSession> }>();
  const off = events.on('workspace_changed', ({ workspace_id: id, agents_outdated: outdated }) => {
    if (!outdated) return;
    for (const { workspaceId, sessions } of kept.values())
      if (workspaceId === id) for (const session of sessions) void session.close();
  });
  return {
    add(agent, session) {
      const here = kept.get(agent.id) ?? { workspaceId: agent.workspace_id, sessions: new Set() };
      kept.set(agent.id, here);
      here.sessions.add(session);
      const [oldest] = here.sessions;
      if (here.sessions.size > MAX_LOG_WRITERS) void oldest?.close();
      return () => {
        here.sessions.delete(session);
        if (here.sessions.size === 0) kept.delete(agent.id);
      };
    },
    close: off,
  };
}

/** The calls of a log writer. Each checks again whether the agent may still report. */
export function logWriterCalls({ sql }: Services, agent: ConnectedAgent<AgentIdentity>, api: AgentCalls): AgentCalls {
  return {
    async batchCreateLogs(request, ctx) {
      if (!(await mayReport(sql, agent)))
        throw new AppError('forbidden', 'A newer build has replaced this agent, so its log cannot grow.');
      return api.batchCreateLogs!(request, ctx);
    },
  };
}

/**
 * The calls of a connection that can be the agent's or a log writer's: `enter` runs before the first call that only an
 * agent makes.
 */
export function callsAfter(enter: () => Promise<void>, api: AgentCalls, logs: AgentCalls): AgentCalls {
  let entered: Promise<void> | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: handlers of any request
  const calls = Object.entries<any>(api).map(([name, handler]) => [
    name,
    async (...args: unknown[]) => {
      entered ??= enter().catch((err) => {
        // the next call, or the next attempt at this one, tries again
        entered = undefined;
        throw err;
      });
      await entered;
      return handler(...args);
    },
  ]);
  return { ...Object.fromEntries(calls), ...logs };
}
