/** The sub-agents of dev containers: one in each running container, started, followed and deleted here. */
import { errorText, type Logger } from '@ropewalk/kit';
import { Log_Level } from '@ropewalk/wire/proto/agent';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import type { AgentOptions } from '../options.ts';
import type { AgentClient } from '../wire-types.ts';
import type { Known, KnownDevcontainers } from './known.ts';
import type { DevcontainerLogs } from './logs.ts';
import type { Surroundings } from './program.ts';
import { startSubAgent } from './sub-agent.ts';
import type { Container } from './types.ts';

/** How long a failed sub-agent waits for its next start, in ms. */
const RETRY_MS = 30_000;

export interface SubAgentsOptions {
  options: AgentOptions;
  log: Logger;
  logs: DevcontainerLogs;
  surroundings(): Surroundings;
  /** Aborts when the agent stops. No sub-agent starts after that. */
  closing: AbortSignal;
  /** Called after each start or end of a sub-agent that `follow` began. */
  onSettled(): void;
}

export class SubAgents {
  readonly #given: SubAgentsOptions;
  #client: AgentClient | undefined;

  constructor(options: SubAgentsOptions) {
    this.#given = options;
  }

  /** Sets the client of the current connection. Without one, no sub-agent starts. */
  setClient(client: AgentClient | undefined): void {
    this.#client = client;
  }

  /** Deletes the sub-agents of an earlier process of this agent: nobody has their tokens any more. */
  async deleteLeftover(client: AgentClient, known: KnownDevcontainers, signal: AbortSignal): Promise<void> {
    try {
      const { agents } = await client.listSubAgents({}, { signal });
      const kept = new Set(known.all.flatMap(({ prepared }) => (prepared ? [uuidText(prepared)] : [])));
      for (const { id } of agents) if (!kept.has(uuidText(id))) await client.deleteSubAgent({ id }, { signal });
    } catch (err) {
      signal.throwIfAborted();
      this.#given.log.debug('could not delete earlier sub-agents', { err: errorText(err) });
    }
  }

  /** Starts or ends the sub-agent of a dev container, whichever is due. */
  follow(one: Known): void {
    const { container, subAgent } = one;
    const { closing, onSettled } = this.#given;
    const runs = container?.running === true && !one.ignored;
    if (one.busy || one.work) return;
    if (subAgent && (!runs || one.subAgentOf !== container.id)) {
      one.busy = this.end(one);
    } else if (!subAgent && runs && this.#client && performance.now() > one.retryAt && !closing.aborted) {
      one.busy = this.#begin(one, container, this.#client);
    } else return;
    void one.busy.finally(() => {
      delete one.busy;
      onSettled();
    });
  }

  async #begin(one: Known, container: Container, client: AgentClient): Promise<void> {
    const { options, log, logs, surroundings, closing } = this.#given;
    try {
      await logs.open(one);
      const source = {
        project: one,
        containerId: container.id,
        name: one.name,
        prepared: one.prepared,
        url: options.url,
        executable: options.executable,
        around: surroundings(),
        log,
        say: (line: string) => logs.write(one, Log_Level.INFO, line),
      };
      const started = await startSubAgent(client, source, closing);
      if (!started) one.ignored = true;
      else {
        one.subAgent = started;
        one.subAgentOf = container.id;
      }
      one.error = '';
    } catch (err) {
      if (closing.aborted) return;
      one.retryAt = performance.now() + RETRY_MS;
      one.error = errorText(err);
      logs.write(one, Log_Level.ERROR, one.error);
    }
  }

  /** Ends a sub-agent and deletes it from the server. */
  async end(one: Known): Promise<void> {
    if (one.work) await one.busy;
    const { subAgent } = one;
    delete one.subAgent;
    delete one.subAgentOf;
    if (!subAgent) return;
    await subAgent.end();
    if (one.prepared) return;
    await this.#client?.deleteSubAgent({ id: uuidBytes(subAgent.id) }).catch((err: unknown) => {
      this.#given.log.debug('could not delete a sub-agent', { name: subAgent.name, err: errorText(err) });
    });
  }

  /** Ends a sub-agent that the server no longer has. Does not wait for its end. */
  abandon(one: Known): void {
    const { subAgent } = one;
    delete one.subAgent;
    void subAgent?.end();
  }
}
