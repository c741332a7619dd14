import type { Client } from '@platform/client';
import type { WorkspaceAgent, WorkspaceAgentLog } from '@platform/contract';
import { AppError } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';
import { stageDuration } from './format.ts';

const POLL_MS = 250;
const TROUBLE_AFTER_MS = 10_000;
/** Where the template sets no time for the agent to connect. */
const DEFAULT_BOUND_MS = 10 * 60_000;
/** However short the template's time is: it counts from the agent's start, not from when somebody looks. */
const LEAST_BOUND_MS = 60_000;
/** A lost connection comes back within this, or the workspace is in trouble. */
const LOST_BOUND_MS = 2 * 60_000;

export interface WaitOptions {
  /** Until the startup scripts have ended, too. */
  forScripts: boolean;
  /** Says nothing; for `ssh --stdio` and commands. */
  quiet?: boolean;
  /** The longest wait for the agent's connection, in ms. Default: see `connectBound`. */
  boundMs?: number;
  /** How often it is looked. Default: 250 ms. */
  pollMs?: number | undefined;
}

const LOG_HINT = 'Their log: coder show --details <workspace>';
const STARTING = new Set(['created', 'starting']);

/**
 * Waits until an agent is connected and, if asked for, its startup scripts have ended, showing their log. Progress
 * goes to stderr. Scripts that fail are told, and are no error: the person may well repair it in there.
 */
export async function waitForAgent(
  ctx: Context,
  client: Client,
  agentId: string,
  options: WaitOptions,
): Promise<WorkspaceAgent> {
  const say = (line: string) => {
    if (!options.quiet) ctx.io.stderr.write(`${line}\n`);
  };
  const fetch = () => client.call('GET /workspaceagents/{workspaceagent}', { params: { workspaceagent: agentId } });
  let agent = await fetch();
  if (agent.status !== 'connected') agent = await untilConnected(ctx, agent, fetch, say, options);
  if (!options.forScripts || !STARTING.has(agent.lifecycle_state)) return told(agent, options.forScripts, say);
  const since = Date.parse(agent.started_at ?? '') || Date.now();
  say('==> ⧗ Running workspace agent startup scripts');
  say('    To go in without waiting for them: coder ssh --wait=no');
  const logs = options.quiet ? undefined : new AgentLogView(client, agentId, say);
  try {
    while (STARTING.has(agent.lifecycle_state)) {
      await pause(ctx, options.pollMs);
      agent = await fetch();
    }
  } finally {
    await logs?.end();
  }
  const mark = agent.lifecycle_state === 'ready' ? '✔' : '✘';
  const took = (Date.parse(agent.ready_at ?? '') || Date.now()) - since;
  say(`==> ${mark} Running workspace agent startup scripts [${stageDuration(took)}]`);
  return told(agent, true, say);
}

/** How long an agent is waited for: what its template allows it to take, as it has been there before or not. */
export function connectBound(agent: Pick<WorkspaceAgent, 'status' | 'connection_timeout_seconds'>): number {
  if (agent.status === 'disconnected') return LOST_BOUND_MS;
  const allowed = agent.connection_timeout_seconds * 1_000;
  return allowed > 0 ? Math.max(allowed, LEAST_BOUND_MS) : DEFAULT_BOUND_MS;
}

/** What is known of an agent that is away, and where to read on. */
function trouble(agent: WorkspaceAgent): string {
  const reason = agent.health.reason || (agent.status === 'disconnected' ? 'its connection was lost' : 'it never did');
  const help = agent.troubleshooting_url ? ` See ${agent.troubleshooting_url}` : '';
  return `${reason.replace(/\.$/, '')}.${help}`;
}

/** Throws `timeout`, with what is known of the agent, where it does not come within its time. */
async function untilConnected(
  ctx: Context,
  first: WorkspaceAgent,
  fetch: () => Promise<WorkspaceAgent>,
  say: (line: string) => void,
  { boundMs, pollMs }: Pick<WaitOptions, 'boundMs' | 'pollMs'>,
): Promise<WorkspaceAgent> {
  const began = Date.now();
  let agent = first;
  say('==> ⧗ Waiting for the workspace agent to connect');
  let told = '';
  while (agent.status !== 'connected') {
    const waited = Date.now() - began;
    const bound = boundMs ?? connectBound(agent);
    if (waited > bound) {
      throw new AppError(
        'timeout',
        `The agent ${agent.name} of the workspace did not connect within ${stageDuration(bound)}: ${trouble(agent)}`,
      );
    }
    const known = agent.status === 'timeout' || agent.status === 'disconnected';
    if (told !== agent.status && (known || waited > TROUBLE_AFTER_MS)) {
      told = agent.status;
      say(`    The agent is not there yet: ${trouble(agent)}`);
    }
    // at the end of its time it is looked once more
    await pause(ctx, Math.min(pollMs ?? POLL_MS, bound - waited + 1));
    agent = await fetch();
  }
  say(`==> ✔ Waiting for the workspace agent to connect [${stageDuration(Date.now() - began)}]`);
  return agent;
}

function told(agent: WorkspaceAgent, scripts: boolean, say: (line: string) => void): WorkspaceAgent {
  const warnings: Partial<Record<string, string>> = {
    start_error: `A startup script ended with an error; the workspace may be incomplete. ${LOG_HINT}`,
    start_timeout: `The startup scripts take longer than allowed; the workspace may be incomplete. ${LOG_HINT}`,
    ...(scripts ? {} : { starting: 'The startup scripts still run; the workspace may be incomplete.' }),
  };
  const text = warnings[agent.lifecycle_state];
  if (text) say(`Warning: ${text}`);
  if (['shutting_down', 'shutdown_error', 'shutdown_timeout', 'off'].includes(agent.lifecycle_state)) {
    throw new AppError('unavailable', 'The workspace is shutting down.');
  }
  return agent;
}

/** Shows an agent's log until it is ended, then what had not come yet. */
class AgentLogView {
  readonly #client: Client;
  readonly #agentId: string;
  readonly #say: (line: string) => void;
  readonly #ended = new AbortController();
  readonly #following: Promise<void>;
  #last = 0;

  constructor(client: Client, agentId: string, say: (line: string) => void) {
    this.#client = client;
    this.#agentId = agentId;
    this.#say = say;
    this.#following = this.#follow();
  }

  async end(): Promise<void> {
    this.#ended.abort();
    await this.#following;
    const rest = await this.#client.call('GET /workspaceagents/{workspaceagent}/logs', {
      params: { workspaceagent: this.#agentId },
      query: { after: this.#last },
    });
    this.#show(rest);
  }

  async #follow(): Promise<void> {
    const { followJson } = await import('@platform/client/stream');
    const path = `/workspaceagents/${this.#agentId}/logs?follow=true&after=0`;
    // what is missed when it breaks is shown at the end
    await followJson(this.#client, path, (message) => this.#show(message), this.#ended.signal).catch(() => {});
  }

  #show(message: unknown): void {
    for (const { id, output, level } of ([] as WorkspaceAgentLog[]).concat(message as WorkspaceAgentLog)) {
      if (id <= this.#last) continue;
      this.#last = id;
      this.#say(`    ${level === 'error' || level === 'warn' ? `${level.toUpperCase()}: ` : ''}${output}`);
    }
  }
}

async function pause(ctx: Context, ms = POLL_MS): Promise<void> {
  await new Promise<void>((resolve) => {
    const over = () => {
      clearTimeout(timer);
      ctx.signal.removeEventListener('abort', over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    ctx.signal.addEventListener('abort', over);
  });
  ctx.signal.throwIfAborted();
}
