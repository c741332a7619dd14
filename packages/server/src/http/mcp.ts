/**
 * The Streamable HTTP transport of MCP: each POST has one message and gets one answer. The answer is JSON, or, for a call that
 * takes longer, a stream of server-sent events whose comments keep proxies from closing it. The tools call the API inside this
 * process (inside.ts). The server keeps no session. The session id that it gives a client only separates the calls of
 * several clients of one person, which may have equal ids, when one of them is canceled.
 */

import { AppError, errorText } from '@ropewalk/kit';
import type { Calls } from '@ropewalk/mcp';
import type { FastifyReply } from 'fastify';
import { CLIENT_JOINS, tunnelRequest } from '../app/agent/tunnel.ts';
import { whileAllowed } from '../app/context/allowed.ts';
import type { Ctx } from '../app/context/context.ts';
import { findReadableAgent } from '../app/find/agent.ts';
import type { UserActor } from '../authz/actor.ts';
import type { AgentReach } from '../cluster/agents.ts';
import type { Exchange } from './exchange.ts';
import type { InsideRequests } from './inside.ts';
import { openForActor } from './relay.ts';
import type { StreamLimits } from './stream-limits.ts';

/** How long a client waits for an answer until it becomes a stream, and between its comments, in ms. */
const PATIENCE_MS = 10_000;
const BEAT_MS = 15_000;
const SESSION_HEADER = 'mcp-session-id';
const VERSION_HEADER = 'mcp-protocol-version';

/** The tools by upstream's names of sets. Those of `chatgpt` are the two that ChatGPT expects. */
const SETS = { standard: 'standard', chatgpt: 'search' } as const;

const INSTRUCTIONS =
  'Manages workspaces, which are development machines of people, and the templates that describe them.';

export interface McpParts {
  agents: AgentReach;
  inside: InsideRequests;
  streams: StreamLimits;
}

export type McpEndpoint = (
  ctx: Ctx,
  http: Exchange,
  input: { toolset: string | undefined; body: unknown },
) => Promise<unknown>;

export function createMcpEndpoint({ agents, inside, streams }: McpParts): McpEndpoint {
  /** By the person's id, while calls run. */
  const running = new Map<string, Calls>();
  return async (ctx, http, { toolset = 'standard', body }) => {
    const { actor } = ctx;
    if (actor.kind !== 'user') throw new AppError('forbidden', 'Only people can use this endpoint.');
    if (toolset !== 'standard' && toolset !== 'chatgpt')
      throw new AppError('invalid', `Invalid toolset ${JSON.stringify(toolset)}: use standard or chatgpt.`);
    // loaded for those who use it
    const mcp = await import('@ropewalk/mcp');
    checkVersion(http, mcp.PROTOCOL_VERSIONS);
    const session = sessionOf(http, body);
    const calls = running.get(actor.id) ?? mcp.Calls.none();
    running.set(actor.id, calls);
    const stopped = new AbortController();
    const signal = AbortSignal.any([ctx.signal, stopped.signal]);
    const server = mcp.createMcpServer(
      {
        version: ctx.version,
        instructions: INSTRUCTIONS,
        tools: mcp.TOOLS.filter(({ set }) => set === SETS[toolset]),
        context: (until) => ({
          client: mcp.createClient({
            url: ctx.accessUrl,
            token: '',
            fetch: inside.fetchAs(ctx, actor),
            signal: until,
          }),
          signal: until,
          openSsh: (agentId, by) => openSsh(ctx, { agents, streams }, actor, agentId, by),
          report: undefined,
        }),
        onProblem: (tool, err) => ctx.log.error('a tool failed', { tool, err: errorText(err) }),
      },
      calls.of(session),
    );
    const stopWatching = hasCall(body)
      ? whileAllowed(
          ctx,
          () => {},
          () => stopped.abort(new AppError('unauthenticated', 'Your session has ended.')),
        )
      : () => {};
    try {
      const answer = server.handle(body, signal);
      return await (acceptsEvents(http) && hasCall(body) ? answerOrStream(http.reply, answer) : answer).then(
        (value) => {
          if (value === undefined && !http.reply.sent) http.reply.code(202);
          return value;
        },
      );
    } finally {
      stopWatching();
      if (calls.count === 0) running.delete(actor.id);
    }
  };
}

/** @throws AppError `invalid` for a version of the protocol that this server does not know */
function checkVersion({ request }: Exchange, known: readonly string[]): void {
  const version = request.headers[VERSION_HEADER];
  if (version === undefined || (typeof version === 'string' && known.includes(version))) return;
  throw new AppError('invalid', `Unknown MCP-Protocol-Version. Known: ${known.join(', ')}.`);
}

/** The session id of the client. A new one for the first message of a client. */
function sessionOf({ request, reply }: Exchange, body: unknown): string {
  if (methodOf(body) === 'initialize') {
    const id = crypto.randomUUID();
    reply.header(SESSION_HEADER, id);
    return id;
  }
  const sent = request.headers[SESSION_HEADER];
  // without one, nothing can be canceled: another client may have a call with the same id
  return typeof sent === 'string' && /^[\x21-\x7e]{1,128}$/.test(sent) ? sent : crypto.randomUUID();
}

const methodOf = (message: unknown): unknown =>
  typeof message === 'object' && message !== null ? (message as { method?: unknown }).method : undefined;

/** Whether a message may take long. */
const hasCall = (body: unknown): boolean =>
  ([] as unknown[]).concat(body).some((one) => methodOf(one) === 'tools/call');

const acceptsEvents = ({ request }: Exchange): boolean =>
  /(^|[\s,])text\/event-stream\b/.test(request.headers.accept ?? '');

/** The answer, if it arrives soon. Otherwise it is sent as an event. */
async function answerOrStream(reply: FastifyReply, answer: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = Symbol('late');
  const patience = new Promise<typeof late>((resolve) => {
    timer = setTimeout(() => resolve(late), PATIENCE_MS);
  });
  const first = await Promise.race([answer, patience]);
  clearTimeout(timer);
  if (first !== late) return first;
  const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' };
  reply.hijack();
  reply.raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...headers });
  const beat = () => reply.raw.write(': waiting\n\n');
  beat();
  const beats = setInterval(beat, BEAT_MS);
  try {
    const value = await answer;
    if (value !== undefined) reply.raw.write(`event: message\ndata: ${JSON.stringify(value)}\n\n`);
  } finally {
    clearInterval(beats);
    reply.raw.end();
  }
  return undefined;
}

/** Opens SSH to an agent. It counts and is recorded like the person's own connections. */
async function openSsh(
  ctx: Ctx,
  { agents, streams }: Pick<McpParts, 'agents' | 'streams'>,
  { id }: UserActor,
  agentId: string,
  signal: AbortSignal,
) {
  const agent = await findReadableAgent(ctx, agentId);
  // the server connects, and not the client
  const { [CLIENT_JOINS]: _, ...request } = tunnelRequest(ctx, { service: 'ssh' });
  const release = streams.hold('tunnel', { kind: 'person', id });
  try {
    const stream = await openForActor(ctx, agents, { agent, request }, signal);
    stream.once('close', release);
    if (stream.destroyed) release();
    // the agent has authenticated this stream to the server
    return { stream, hostKey: undefined };
  } catch (err) {
    release();
    throw err;
  }
}
