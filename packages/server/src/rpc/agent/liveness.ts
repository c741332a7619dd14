import { errorText } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import { type Connected, markAgentsAlive, markAgentsGone } from '../../db/queries/agents.ts';
import type { AgentNetwork } from '../../db/rows.ts';

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
  /** Resolves with the round trip in ms. */
  ping(): Promise<number>;
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
export function startAgentLiveness(services: Services, options: AgentLivenessOptions = {}): AgentLiveness {
  return new LiveAgents(services, options);
}

export interface AgentLivenessOptions {
  everyMs?: number | undefined;
  /** What is stored of an agent's network, from the last round trip to the agent in ms. */
  networkOf?(agentId: string, roundTripMs: number | undefined): AgentNetwork | undefined;
}

interface Liveness {
  unanswered: number;
  part: number;
  /** The last round trip, in ms. */
  roundTripMs: number | undefined;
}

class LiveAgents implements AgentLiveness {
  readonly #services: Services;
  readonly #timer: NodeJS.Timeout;
  readonly #off: (() => void)[];
  readonly #live = new Map<LiveAgent, Liveness>();
  readonly #networkOf: NonNullable<AgentLivenessOptions['networkOf']>;
  /** The part of the interval that is now, and the one for the next agent. */
  #part = 0;
  #nextPart = 0;
  /** What the next run stores. */
  #came: LiveAgent[] = [];
  #went: LiveAgent[] = [];
  /** Agents of a workspace whose build has just ended. They may be outdated. */
  #doubtful: LiveAgent[] = [];
  #all = false;
  #running: Promise<void> | undefined;

  constructor(services: Services, { everyMs = EVERY_MS, networkOf = () => undefined }: AgentLivenessOptions) {
    const { events } = services;
    this.#services = services;
    this.#networkOf = networkOf;
    this.#timer = setInterval(() => this.#ping(), everyMs / PARTS);
    this.#timer.unref();
    this.#off = [
      events.onResync(() => this.#storeAll()),
      events.on('workspace_changed', ({ workspace_id: id, agents_outdated: outdated }) => {
        if (outdated) this.#doubt(id);
      }),
    ];
  }

  async arrived(agent: LiveAgent): Promise<void> {
    const state = { unanswered: 0, part: this.#nextPart++ % PARTS, roundTripMs: undefined };
    this.#live.set(agent, state);
    this.#measure(agent, state);
    this.#came.push(agent);
    await this.#store();
  }

  async gone(agent: LiveAgent, last: boolean): Promise<void> {
    this.#live.delete(agent);
    this.#came = this.#came.filter((other) => other !== agent);
    if (!last) return;
    this.#went.push(agent);
    await this.#store();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const stop of this.#off) stop();
    let limit: NodeJS.Timeout | undefined;
    await Promise.race([
      this.#store(),
      new Promise((resolve) => {
        limit = setTimeout(resolve, LAST_STORE_MS);
      }),
    ]);
    clearTimeout(limit);
  }

  /** Pings the agents of the next part, and ends the connections of those that do not answer. */
  #ping(): void {
    this.#part = (this.#part + 1) % PARTS;
    if (this.#part === 0) this.#storeAll();
    for (const [agent, state] of this.#live) {
      if (state.part !== this.#part) continue;
      if (state.unanswered >= UNANSWERED) agent.close();
      else this.#measure(agent, state);
      state.unanswered++;
    }
  }

  #measure(agent: LiveAgent, state: Liveness): void {
    agent.ping().then(
      (ms) => {
        state.unanswered = 0;
        state.roundTripMs = ms;
      },
      () => {},
    );
  }

  #doubt(workspace: string): void {
    const agents = [...this.#live.keys()].filter(({ workspaceId }) => workspaceId === workspace);
    if (agents.length === 0) return;
    this.#doubtful.push(...agents);
    void this.#store();
  }

  #storeAll(): void {
    this.#all = true;
    void this.#store();
  }

  /** Resolves after a run that began after the call. */
  async #store(): Promise<void> {
    if (this.#running) await this.#running;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async #run(): Promise<void> {
    const { sql, events, log } = this.#services;
    const [fresh, ended, doubted] = [this.#came, this.#went, this.#doubtful];
    const whole = this.#all;
    [this.#came, this.#went, this.#doubtful, this.#all] = [[], [], [], false];
    try {
      const beating = whole ? [...this.#live.keys()] : [...new Set([...fresh, ...doubted])];
      if (beating.length > 0) {
        const outdated = await markAgentsAlive(
          sql,
          beating.map((agent) => this.#alive(agent)),
        );
        for (const agent of beating) if (outdated.has(agent.agent.id)) agent.close();
      }
      for (const agent of fresh) {
        events.publishSoon('agent_connected', { agent_id: agent.agent.id, number: agent.number });
        this.#publishChange(agent);
      }
      if (ended.length > 0) {
        const noted = await markAgentsGone(sql, ended);
        for (const agent of ended) if (noted.has(agent.agent.id)) this.#publishChange(agent);
      }
    } catch (err) {
      // the database is unreachable: connections stay, and the next run stores what is missing
      log.warn('could not store which agents are alive', { err: errorText(err) });
      this.#came = [...fresh.filter((agent) => this.#live.has(agent)), ...this.#came];
      this.#went = [...ended, ...this.#went];
    }
  }

  #alive(live: LiveAgent) {
    const { agent, number } = live;
    return { agent, number, network: this.#networkOf(agent.id, this.#live.get(live)?.roundTripMs) };
  }

  #publishChange({ workspaceId, ownerId }: LiveAgent): void {
    this.#services.events.publishSoon('workspace_changed', { workspace_id: workspaceId, owner_id: ownerId });
  }
}
