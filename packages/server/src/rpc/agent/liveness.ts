import { errorText } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import { type Connected, markAgentsAlive, markAgentsGone } from '../../db/queries/agents.ts';

/** How often each connection gets a ping, and how often the rows of all agents are written. */
const EVERY_MS = 15_000;
/** The unanswered pings after which a connection ends. A clock would end all connections of a server that was itself held up. */
const UNANSWERED = 2;
/** The parts of the interval over which the pings are spread. */
const PARTS = 30;
/** How long a stopping server waits until it has stored which agents are gone. */
const LAST_STORE_MS = 2_000;

/** One connection of an agent. */
export interface LiveAgent extends Connected {
  ownerId: string;
  workspaceId: string;
  ping(): Promise<unknown>;
  /** Ends the connection. */
  close(): void;
}

export interface AgentLiveness {
  /** Starts pings, and stores that the agent is alive. Resolves when that is stored first. Never rejects. */
  arrived(agent: LiveAgent): Promise<void>;
  /** The connection has ended. `last`: this server has no newer one. Resolves when that is stored. Never rejects. */
  gone(agent: LiveAgent, last: boolean): Promise<void>;
  close(): Promise<void>;
}

/**
 * Looks after all connected agents together, with the same number of statements for two thousand as for one. Agents that
 * come or go while a statement runs wait for the next, which covers all of them.
 */
export function startAgentLiveness(services: Services, everyMs = EVERY_MS): AgentLiveness {
  const { sql, events, log } = services;
  const live = new Map<LiveAgent, { unanswered: number; part: number }>();
  let came: LiveAgent[] = [];
  let went: LiveAgent[] = [];
  /** Agents of a workspace whose build has just ended. They may be outdated. */
  let doubtful: LiveAgent[] = [];
  let all = false;
  let running: Promise<void> | undefined;

  const changed = ({ workspaceId, ownerId }: LiveAgent) =>
    events.publishSoon('workspace_changed', { workspace_id: workspaceId, owner_id: ownerId });

  async function note(): Promise<void> {
    const [fresh, ended, doubted] = [came, went, doubtful];
    const whole = all;
    [came, went, doubtful, all] = [[], [], [], false];
    try {
      const beating = whole ? [...live.keys()] : [...new Set([...fresh, ...doubted])];
      if (beating.length > 0) {
        const outdated = await markAgentsAlive(sql, beating);
        for (const agent of beating) if (outdated.has(agent.agent.id)) agent.close();
      }
      for (const agent of fresh) {
        events.publishSoon('agent_connected', { agent_id: agent.agent.id, number: agent.number });
        changed(agent);
      }
      if (ended.length > 0) {
        const noted = await markAgentsGone(sql, ended);
        for (const agent of ended) if (noted.has(agent.agent.id)) changed(agent);
      }
    } catch (err) {
      // the database is unreachable: connections stay, and the next run stores what is missing
      log.warn('could not store which agents are alive', { err: errorText(err) });
      came = [...fresh.filter((agent) => live.has(agent)), ...came];
      went = [...ended, ...went];
    }
  }

  /** Resolves after a run that began after the call. */
  async function look(): Promise<void> {
    if (running) await running;
    running ??= note().finally(() => {
      running = undefined;
    });
    await running;
  }

  let part = 0;
  let nextPart = 0;
  function ping(): void {
    part = (part + 1) % PARTS;
    if (part === 0) {
      all = true;
      void look();
    }
    for (const [agent, state] of live) {
      if (state.part !== part) continue;
      if (state.unanswered >= UNANSWERED) agent.close();
      else
        agent.ping().then(
          () => {
            state.unanswered = 0;
          },
          () => {},
        );
      state.unanswered++;
    }
  }
  const timer = setInterval(ping, everyMs / PARTS);
  timer.unref();
  const off = [
    events.onResync(() => {
      all = true;
      void look();
    }),
    events.on('workspace_changed', ({ workspace_id: id, agents_outdated: outdated }) => {
      if (!outdated) return;
      const agents = [...live.keys()].filter(({ workspaceId }) => workspaceId === id);
      if (agents.length === 0) return;
      doubtful.push(...agents);
      void look();
    }),
  ];

  return {
    async arrived(agent) {
      live.set(agent, { unanswered: 0, part: nextPart++ % PARTS });
      came.push(agent);
      await look();
    },
    async gone(agent, last) {
      live.delete(agent);
      came = came.filter((other) => other !== agent);
      if (!last) return;
      went.push(agent);
      await look();
    },
    async close() {
      clearInterval(timer);
      for (const stop of off) stop();
      let limit: NodeJS.Timeout | undefined;
      await Promise.race([
        look(),
        new Promise((resolve) => {
          limit = setTimeout(resolve, LAST_STORE_MS);
        }),
      ]);
      clearTimeout(limit);
    },
  };
}
