/**
 * The conversation of a task. The chat app of the task serves it as upstream's agentapi does, below the app's URL:
 * `GET /status`, `GET /messages` and `POST /message`. While the workspace is stopped, the server shows the copy that the
 * workspace sent before (the snapshot). The answers come from a workspace, so their content is untrusted.
 */

import { type IncomingMessage, request as requestOf } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TaskLogEntry, TaskLogSnapshot, TaskLogsResponse, WorkspaceApp } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { putTaskSnapshot, type TaskMessage, taskSnapshot } from '../../db/queries/tasks.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import { workspaceObject } from '../find/workspace.ts';
import { time } from '../values/time.ts';
import { toWorkspace } from '../workspace/convert.ts';
import { type Chat, chatOf, taskStatus } from './convert.ts';
import { findTask } from './read.ts';

/** Opens a stream to a port of a workspace. */
export type OpenPort = (target: { agent: string; port: number }, signal: AbortSignal) => Promise<Duplex>;

/** Upstream's limit of a stored conversation, in bytes. */
const MAX_SNAPSHOT_BYTES = 64 * 1024;
/** The largest answer of an app, in bytes. */
const MAX_ANSWER_BYTES = 2 * 1024 * 1024;
/** How long an app may take for all requests about one message. */
const TIMEOUT_MS = 30_000;

/**
 * Sends a message to the coding agent of a task.
 * @throws AppError `conflict` if the task or its coding agent is not ready, `unavailable` if the app fails
 */
export async function sendToTask(
  ctx: Ctx,
  user: string,
  task: string,
  { message, open }: { message: string; open: OpenPort },
): Promise<undefined> {
  if (message === '') {
    throw new AppError('invalid', 'A message is required.', {
      validations: [{ field: 'input', detail: 'must not be empty' }],
    });
  }
  const { status, chat } = await findChat(ctx, user, task);
  if (status !== 'active') {
    throw new AppError('conflict', `The task is ${status}, so its coding agent receives no messages.`, {
      detail: status === 'paused' ? 'Resume the task first.' : 'Wait until the task is active.',
    });
  }
  const ask = appOf(chat, open, ctx.signal);
  const state = ((await ask('GET', 'status')) as { status?: unknown } | null)?.status;
  if (state !== 'stable') {
    throw new AppError('conflict', 'The coding agent of this task does not accept messages now.', {
      detail: `Its status is ${JSON.stringify(String(state).slice(0, 100))}. Try again when it has finished its work.`,
    });
  }
  await ask('POST', 'message', { content: message, type: 'user' });
}

/**
 * The conversation of a task.
 * @throws AppError `conflict` for a task that failed, `unavailable` if the app fails
 */
export async function taskLogs(ctx: Ctx, user: string, task: string, open: OpenPort): Promise<TaskLogsResponse> {
  const { id, status, chat } = await findChat(ctx, user, task);
  switch (status) {
    case 'active': {
      const answer = await appOf(chat, open, ctx.signal)('GET', 'messages');
      return { logs: entriesOf((answer as { messages?: unknown } | null)?.messages) };
    }
    case 'paused':
    case 'pending':
    case 'initializing': {
      const stored = await taskSnapshot(ctx.sql, id);
      if (!stored) return { logs: [], snapshot: true };
      return { logs: stored.messages.map(toEntry), snapshot: true, snapshot_at: time(stored.created_at) };
    }
    default:
      throw new AppError('conflict', `The task has the status "${status}", in which its conversation cannot be read.`);
  }
}

/** Stores the conversation that a workspace sends before it stops. */
export async function storeTaskSnapshot(
  ctx: Services,
  agent: ConnectedAgent<AgentIdentity>,
  task: string,
  { messages }: TaskLogSnapshot,
): Promise<undefined> {
  if (task !== agent.workspace_id) throw new AppError('not_found', 'The workspace of this agent has no such task.');
  const size = Buffer.byteLength(JSON.stringify(messages));
  if (size > MAX_SNAPSHOT_BYTES) {
    throw new AppError('invalid', `The conversation has ${size} bytes. Send at most ${MAX_SNAPSHOT_BYTES}.`, {
      validations: [{ field: 'messages', detail: `must have at most ${MAX_SNAPSHOT_BYTES} bytes` }],
    });
  }
  await putTaskSnapshot(ctx.sql, agent, { messages, created_at: ctx.clock.now() });
}

async function findChat(ctx: Ctx, user: string, task: string) {
  const found = await findTask(ctx, user, task);
  authorize(ctx, 'application_connect', workspaceObject({ ...found, dormant_at: null }));
  const workspace = await toWorkspace(ctx, found);
  const chat = chatOf(workspace);
  return { id: found.id, status: taskStatus(workspace, chat.agent, chat.app), chat };
}

type Ask = (method: 'GET' | 'POST', path: string, body?: object) => Promise<unknown>;

/** @throws AppError `invalid` if the app of the task cannot serve a conversation */
function appOf({ agent, app }: Chat, open: OpenPort, signal: AbortSignal): Ask {
  const url = app && addressOf(app);
  if (!agent || !url) {
    throw new AppError('invalid', 'This task has no conversation that the server can read.', {
      detail: 'Its template must name an app with an http URL in coder_ai_task.',
    });
  }
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const target = { agent: agent.id, port: Number(url.port) || 80 };
  return async (method, path, body) => {
    const stream = await open(target, limit);
    try {
      return await exchange(
        stream,
        { method, host: url.host, path: `${url.pathname.replace(/\/$/, '')}/${path}`, body },
        limit,
      );
    } catch (err) {
      signal.throwIfAborted();
      throw new AppError('unavailable', 'The app of this task did not answer as expected.', {
        detail: limit.aborted ? `It took longer than ${TIMEOUT_MS / 1_000} s.` : errorText(err),
        cause: err,
      });
    } finally {
      stream.destroy();
    }
  };
}

function addressOf({ url, external }: WorkspaceApp): URL | undefined {
  if (external || !url || !URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  return parsed.protocol === 'http:' ? parsed : undefined;
}

/** One request and its answer, which must be JSON. */
async function exchange(
  stream: Duplex,
  { method, host, path, body }: { method: string; host: string; path: string; body: object | undefined },
  signal: AbortSignal,
): Promise<unknown> {
  const text = body && JSON.stringify(body);
  const request = requestOf({
    createConnection: () => stream,
    method,
    path,
    signal,
    headers: {
      host,
      accept: 'application/json',
      connection: 'close',
      ...(text ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } : {}),
    },
  });
  request.end(text);
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    request.once('response', resolve).once('error', reject),
  );
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_ANSWER_BYTES) throw new Error(`Its answer has more than ${MAX_ANSWER_BYTES} bytes.`);
    parts.push(part);
  }
  if (answer.statusCode! < 200 || answer.statusCode! > 299) throw new Error(`Its status is ${answer.statusCode}.`);
  return JSON.parse(Buffer.concat(parts).toString('utf8'));
}

function entriesOf(messages: unknown): TaskLogEntry[] {
  if (!Array.isArray(messages) || !messages.every(isMessage)) {
    throw new AppError('unavailable', 'The app of this task did not answer as expected.', {
      detail: 'Its answer has no list of messages.',
    });
  }
  return messages.map(toEntry);
}

function isMessage(value: unknown): value is TaskMessage {
  const { id, role, content, time: at } = (value ?? {}) as Record<string, unknown>;
  return (
    Number.isSafeInteger(id) &&
    (role === 'agent' || role === 'user') &&
    typeof content === 'string' &&
    typeof at === 'string' &&
    !Number.isNaN(Date.parse(at))
  );
}

const toEntry = ({ id, role, content, time: at }: TaskMessage): TaskLogEntry => ({
  id,
  type: role === 'user' ? 'input' : 'output',
  content,
  time: time(new Date(at)),
});
