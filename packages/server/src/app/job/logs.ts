import type { ProvisionerJobLog } from '@platform/contract';
import { errorText } from '@platform/kit';
import type { WebSocketConnection } from '@platform/wire/websocket';
import { jobLogs } from '../../db/queries/job-logs.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { type Permission, whileAllowed } from '../allowed.ts';
import type { Ctx } from '../context.ts';
import { toJobLog } from './convert.ts';

const PING_MS = 15_000;
const LOOK_AGAIN_MS = 1_000;
const PAGE = 1_000;

/** A page of a job's log. */
export async function listJobLogs(
  ctx: Ctx,
  jobId: string,
  range: { after?: number | undefined; before?: number | undefined },
): Promise<ProvisionerJobLog[]> {
  return (await jobLogs(ctx.sql, jobId, range)).map(toJobLog);
}

/**
 * Sends a job's log as it grows, a text message a line, and closes once the job is final: the published client takes
 * its verdict from one look at the job right after the close.
 */
export async function streamJobLogs(
  ctx: Ctx,
  socket: WebSocketConnection,
  jobId: string,
  { permission, after = 0 }: { permission: Permission; after?: number | undefined },
): Promise<void> {
  let last = after;
  await follow(ctx, socket, {
    permission,
    subscribe: (wake) => ctx.events.on('job_changed', (event) => event.job_id === jobId && wake()),
    async next() {
      // asked before the log is read: what was written until the end is then read for certain
      const job = await jobById(ctx.sql, jobId);
      const messages: string[] = [];
      const rows = await jobLogs(ctx.sql, jobId, { after: last, limit: PAGE });
      for (const row of rows) messages.push(JSON.stringify(toJobLog(row)));
      last = rows.at(-1)?.id ?? last;
      return { messages, more: rows.length === PAGE, end: !job || (job.completed_at !== null && rows.length < PAGE) };
    },
  });
}

export interface Followed {
  permission: Permission;
  subscribe(wake: () => void): () => void;
  /** What is new; `more` asks to be called again at once, `end` closes after the messages. */
  next(): Promise<{ messages: string[]; more: boolean; end: boolean }>;
}

/** Sends what is new over a WebSocket, woken by events and by a timer, at the reader's pace. */
export async function follow(ctx: Ctx, socket: WebSocketConnection, followed: Followed): Promise<void> {
  let wake = () => {};
  let again = false;
  let closed = false;
  const rouse = () => {
    again = true;
    wake();
  };
  const unsubscribe = followed.subscribe(rouse);
  const stopWatching = whileAllowed(ctx, followed.permission, () => socket.close(1008, 'not allowed any more'));
  const off = () => {
    unsubscribe();
    stopWatching();
  };
  const ping = setInterval(() => socket.ping(), PING_MS);
  // what nobody listens to would hold the socket, and its close would go unseen
  socket.on('text', () => {});
  socket.on('close', () => {
    closed = true;
    rouse();
  });
  try {
    while (!closed) {
      again = false;
      const { messages, more, end } = await followed.next();
      for (const message of messages) {
        if (closed) return;
        if (!socket.sendText(message)) await drained(socket);
      }
      if (end) {
        socket.close(1000, 'end of log');
        return;
      }
      if (more || again) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, LOOK_AGAIN_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  } catch (err) {
    ctx.log.warn('following failed', { err: errorText(err) });
    socket.close(1011, 'internal error');
  } finally {
    off();
    clearInterval(ping);
  }
}

async function drained(socket: WebSocketConnection): Promise<void> {
  await new Promise<void>((resolve) => {
    socket.once('drain', resolve);
    socket.once('close', () => resolve());
  });
}
