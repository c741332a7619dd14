import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';

/** Attempts without a new line, after which the log counts as lost. */
const MAX_LOST = 20;
const MAX_PAUSE_MS = 2_000;

export interface FollowedLog<Line extends { id: number }> {
  /** Such as `/workspacebuilds/{id}/logs`. */
  path: string;
  /** The id of the last line that is already shown. 0 for a log from its start. */
  after: number;
  onLine: (line: Line) => void;
  /** Whether the log has ended. Called each time that the stream has. */
  isOver: () => Promise<boolean>;
  /** Ends the following with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/**
 * Calls back with each line of a log until the log has ended, through lost connections: a server that restarts closes the
 * stream in the middle. @throws UnreachableError or AppError if the server does not send the log
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
  for (let lost = 0; ; ) {
    const before = last;
    const failure = await followJson(client, `${log.path}?follow=true&after=${last}`, onMessage, log.signal).then(
      () => undefined,
      (err: unknown) => err as Error,
    );
    log.signal?.throwIfAborted();
    if (await log.isOver()) return;
    lost = last > before ? 0 : lost + 1;
    if (lost > MAX_LOST) throw failure ?? new AppError('unavailable', 'The server did not send the log.');
    await pause(Math.min(250 * lost, MAX_PAUSE_MS));
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
