import type { Sql } from '../../db/connect.ts';
import { type Gathered, type GatherOptions, gather } from '../../db/gather.ts';
import { type AppHealths, setAppHealths } from '../../db/queries/agent-parts.ts';
import { insertScriptTimings, type ScriptTiming } from '../../db/queries/agent-reports.ts';
import {
  type AgentLifecycle,
  type AgentStartup,
  countConnections,
  type NewConnection,
  setAgentLifecycles,
  setAgentStartups,
} from '../../db/queries/agents.ts';

/**
 * Writes the reports of an agent's start together with those of other agents. Each call resolves when its report is on the
 * disk, and fails alone if the database rejects only its data. The reports of one agent and kind are written in the order
 * of the calls.
 */
export interface AgentWrites {
  /** Returns the number of the connection. Undefined: the agent has another SSH host key. */
  connection(connection: NewConnection): Promise<number | undefined>;
  startup(startup: AgentStartup): Promise<void>;
  lifecycle(lifecycle: AgentLifecycle): Promise<void>;
  /** Returns whether the health of an app changed. */
  appHealths(healths: AppHealths): Promise<boolean>;
  scriptTiming(timing: ScriptTiming): Promise<void>;
  /** Resolves when the calls so far have ended, or after two seconds. */
  close(): Promise<void>;
}

export function createAgentWrites(sql: Sql): AgentWrites {
  const connections = ofAgents<NewConnection, number | undefined>((items) => countConnections(sql, items));
  const startups = ofAgents(withoutResults<AgentStartup>((items) => setAgentStartups(sql, items)));
  const lifecycles = ofAgents(withoutResults<AgentLifecycle>((items) => setAgentLifecycles(sql, items)));
  const healths = ofAgents<AppHealths, boolean>((items) => setAppHealths(sql, items));
  const timings = ofAgents(withoutResults<ScriptTiming>((items) => insertScriptTimings(sql, items)));
  const all = [connections, startups, lifecycles, healths, timings];
  return {
    connection: connections.add,
    startup: startups.add,
    lifecycle: lifecycles.add,
    appHealths: healths.add,
    scriptTiming: timings.add,
    async close() {
      await Promise.all(all.map(({ close }) => close()));
    },
  };
}

function ofAgents<T extends { agent: { id: string } }, R>(run: GatherOptions<T, R>['run']) {
  const gathered: Gathered<T, R> = gather({ run });
  return { add: (item: T) => gathered.add(item.agent.id, item), close: () => gathered.close() };
}

const withoutResults =
  <T>(write: (items: readonly T[]) => Promise<void>) =>
  async (items: readonly T[]): Promise<undefined[]> => {
    await write(items);
    return [];
  };
