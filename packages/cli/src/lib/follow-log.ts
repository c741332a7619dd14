import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { isTemporary, MAX_OUTAGE_MS, pause, pauseMs } from './outage.ts';

/** A stream that is open for this long, in ms, lasts. */
const LASTS_MS = 2_000;

export interface FollowedLog<Line extends { id: number }> {
  /** Such as `/workspacebuilds/{id}/logs`. */
  path: string;
  /** The id of the last line that is already shown. 0 for a log from its start. */
  after: number;
  onLine: (line: Line) => void;
  /** Whether the log has ended. Called each time that the stream has. It may fail while the server cannot answer. */
  isOver: () => Promise<boolean>;
  /** Ends the following with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/**
 * Calls back with each line of a log until the log has ended, through lost connections: a server that restarts closes the
 * stream in the middle. @throws ApiError if the server rejects the requests, UnreachableError or AppError if it does not
 * send the log for 100 s
 */
export async function followLog<Line extends { id: number }>(client: Client, log: FollowedLog<Line>): Promise<void> {
  const { followJson } = await import('@ropewalk/client/stream');
  let last = log.after;
  const onMessage = (message: unknown) => {
    for (const line of ([] as Line[]).concat(message as Line)) {
      if (line.id <= last) continue;
      last = line.id;
      log.onLine(line);
    }
  };
  let lostSince = performance.now();
  for (let lost = 0, isOver = false; ; ) {
    const before = last;
    let openedAt = Number.POSITIVE_INFINITY;
    const failure = await followJson(client, `${log.path}?follow=true&after=${last}`, {
      onMessage,
      onOpen: () => (openedAt = performance.now()),
      signal: log.signal,
    }).then(
      () => undefined,
      (err: unknown) => err as Error,
    );
    const openMs = performance.now() - openedAt;
    log.signal?.throwIfAborted();
    // without an answer, the last lines may be missing, although the log has ended: the next stream sends them
    const hasAnswer = !failure || !isTemporary(failure);
    if (isOver && hasAnswer) return;
    isOver = await log.isOver().catch(falseIfTemporary);
    if (isOver && hasAnswer) return;
    if (failure && hasAnswer) throw failure;
    if (last > before || openMs >= LASTS_MS) {
      lost = 0;
      lostSince = performance.now();
    } else if (performance.now() - lostSince > MAX_OUTAGE_MS) {
      throw failure ?? new AppError('unavailable', 'The server did not send the log.');
    }
    lost += 1;
    await pause(pauseMs(lost), log.signal);
  }
}

function falseIfTemporary(err: Error): false {
  if (isTemporary(err)) return false;
  throw err;
}
