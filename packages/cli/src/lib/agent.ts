import type { Client } from '@ropewalk/client';
import type { WorkspaceAgent, WorkspaceAgentLog } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { warn } from '../framework/io.ts';
import { followLog } from './follow-log.ts';
import { stageDuration } from './format.ts';
import { pause, throughOutage } from './outage.ts';
import { type Progress, showProgress } from './progress.ts';

const POLL_MS = 250;
const TROUBLE_AFTER_MS = 10_000;
/** Applies where the template sets no time for the agent to connect. */
const DEFAULT_BOUND_MS = 10 * 60_000;
/** The template's time counts from the start of the agent, so that less would end waits that have just begun. */
const LEAST_BOUND_MS = 60_000;
/** A lost connection usually resumes within this time. */
const LOST_BOUND_MS = 2 * 60_000;

export interface WaitOptions {
  /** Wait until the startup scripts have ended, too. */
  forScripts: boolean;
  /** Show nothing, for `ssh --stdio` and commands. */
  quiet?: boolean;
  /** The longest wait for the agent's connection, in ms. Default: see `connectBound`. */
  boundMs?: number;
  /** Interval between checks, in ms. Default: 250. */
  pollMs?: number | undefined;
}

const LOG_HINT = 'See their log with: coder show --details <workspace>';
const STARTING = new Set(['created', 'starting']);
const CONNECTING = 'Waiting for the workspace agent to connect';
const RUNNING_SCRIPTS = 'Running workspace agent startup scripts';

/**
 * Waits until an agent is connected and, if asked for, its startup scripts have ended. Shows progress and the log of the
 * scripts on stderr. Scripts that fail are a warning and not an error: people repair them in the workspace.
 */
export async function waitForAgent(
  ctx: Context,
  client: Client,
  agentId: string,
  options: WaitOptions,
): Promise<WorkspaceAgent> {
  const progress = options.quiet ? SILENT : showProgress(ctx.io.stderr, ctx.env);
  const call = () => client.call('GET /workspaceagents/{workspaceagent}', { params: { workspaceagent: agentId } });
  const onAway = () => progress.wait('The server does not answer. Trying again.', 'away');
  const fetch = () => throughOutage(call, { signal: ctx.signal, onAway });
  try {
    let agent = await fetch();
    if (agent.status !== 'connected') agent = await untilConnected(ctx, agent, fetch, progress, options);
    if (options.forScripts && STARTING.has(agent.lifecycle_state)) {
      agent = await untilScriptsEnd(ctx, client, agent, fetch, progress, options);
    }
    if (!options.quiet) warnOfScripts(ctx, agent, options.forScripts);
    return checkNotShuttingDown(agent);
  } finally {
    progress.close();
  }
}

const SILENT: Progress = { begin() {}, wait() {}, log() {}, end() {}, say() {}, close() {} };

async function untilScriptsEnd(
  ctx: Context,
  client: Client,
  first: WorkspaceAgent,
  fetch: () => Promise<WorkspaceAgent>,
  progress: Progress,
  options: WaitOptions,
): Promise<WorkspaceAgent> {
  const since = Date.parse(first.started_at ?? '') || Date.now();
  progress.begin(RUNNING_SCRIPTS);
  const logs = options.quiet ? undefined : new AgentLogView(client, first.id, (line) => progress.log(line));
  let agent = first;
  try {
    while (STARTING.has(agent.lifecycle_state)) {
      progress.wait('To connect without waiting for them: coder ssh --wait=no', 'hint');
      await pause(options.pollMs ?? POLL_MS, ctx.signal);
      agent = await fetch();
    }
  } finally {
    await logs?.end();
  }
  const took = (Date.parse(agent.ready_at ?? '') || Date.now()) - since;
  progress.end(agent.lifecycle_state === 'ready' ? 'done' : 'failed', took);
  return agent;
}

/** The longest wait for an agent to connect, in ms. A lost connection has another limit than a first one. */
export function connectBound(agent: Pick<WorkspaceAgent, 'status' | 'connection_timeout_seconds'>): number {
  if (agent.status === 'disconnected') return LOST_BOUND_MS;
  const allowed = agent.connection_timeout_seconds * 1_000;
  return allowed > 0 ? Math.max(allowed, LEAST_BOUND_MS) : DEFAULT_BOUND_MS;
}

/** Why an agent is not connected, and where to read more. */
function trouble(agent: WorkspaceAgent): string {
  const reason =
    agent.health.reason ||
    (agent.status === 'disconnected' ? 'its connection was lost' : 'it has not contacted the server');
  const help = agent.troubleshooting_url ? ` See ${agent.troubleshooting_url}` : '';
  return `${reason.replace(/\.$/, '')}.${help}`;
}

/** @throws AppError `timeout` with the reason where the agent does not connect in time. */
async function untilConnected(
  ctx: Context,
  first: WorkspaceAgent,
  fetch: () => Promise<WorkspaceAgent>,
  progress: Progress,
  { boundMs, pollMs }: Pick<WaitOptions, 'boundMs' | 'pollMs'>,
): Promise<WorkspaceAgent> {
  const began = Date.now();
  let agent = first;
  progress.begin(CONNECTING);
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
    if (known || waited > TROUBLE_AFTER_MS) {
      progress.wait(`The agent is not connected yet: ${trouble(agent)}`, agent.status);
    }
    // the last check is at the end of the time
    await pause(Math.min(pollMs ?? POLL_MS, bound - waited + 1), ctx.signal);
    agent = await fetch();
  }
  progress.end('done', Date.now() - began);
  return agent;
}

function warnOfScripts(ctx: Context, agent: WorkspaceAgent, waited: boolean): void {
  const warnings: Partial<Record<string, string>> = {
    start_error: `A startup script failed. The workspace may be incomplete. ${LOG_HINT}`,
    start_timeout: `The startup scripts take longer than allowed. The workspace may be incomplete. ${LOG_HINT}`,
    ...(waited ? {} : { starting: 'The startup scripts are still running. The workspace may be incomplete.' }),
  };
  const text = warnings[agent.lifecycle_state];
  if (text) warn(ctx, text);
}

function checkNotShuttingDown(agent: WorkspaceAgent): WorkspaceAgent {
  if (['shutting_down', 'shutdown_error', 'shutdown_timeout', 'off'].includes(agent.lifecycle_state)) {
    throw new AppError('unavailable', 'The workspace is shutting down.');
  }
  return agent;
}

/** Shows an agent's log until `end`, which shows the lines that had not arrived yet. */
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
    const rest = await throughOutage(() =>
      this.#client.call('GET /workspaceagents/{workspaceagent}/logs', {
        params: { workspaceagent: this.#agentId },
        query: { after: this.#last },
      }),
    );
    for (const line of rest) this.#show(line);
  }

  async #follow(): Promise<void> {
    // `end` shows the lines that it could not
    await followLog<WorkspaceAgentLog>(this.#client, {
      path: `/workspaceagents/${this.#agentId}/logs`,
      after: 0,
      onLine: (line) => this.#show(line),
      isOver: async () => false,
      signal: this.#ended.signal,
    }).catch(() => {});
  }

  #show({ id, output, level }: WorkspaceAgentLog): void {
    this.#last = id;
    this.#say(`${level === 'error' || level === 'warn' ? `${level.toUpperCase()}: ` : ''}${output}`);
  }
}
