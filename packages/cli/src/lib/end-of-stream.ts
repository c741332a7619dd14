import type { Duplex } from 'node:stream';
import { ApiError, type Client } from '@platform/client';
import { AppError } from '@platform/kit/errors';
import { findWorkspace, type Target } from './workspace.ts';

/** Longer nobody waits for words on what is over anyway. */
const MOST_ASKING_MS = 3_000;

/** A connection that ended before what went on over it, without words of the server. */
export class ConnectionLost extends AppError {
  constructor() {
    super('unavailable', 'The connection to the workspace was lost.');
  }
}

/** What the server said when it let a tunnel not go on, such as that the workspace was stopped. */
export function refusalOf(err: unknown): ApiError | undefined {
  return err instanceof ApiError ? err : undefined;
}

/** Why a tunnel is over that should have gone on. */
export function lossOf(stream: Duplex): Error {
  return refusalOf(stream.errored) ?? new ConnectionLost();
}

/** Asks whether a workspace no longer runs: its agent, told to end, ends sessions without saying why. */
export async function endOfWorkspace(client: Client, target: Target): Promise<AppError | undefined> {
  const asking = findWorkspace(client, target.workspace).catch(() => undefined);
  const tooLong = new Promise<void>((resolve) => setTimeout(resolve, MOST_ASKING_MS).unref());
  const found = await Promise.race([asking, tooLong]);
  const build = found?.latest_build;
  if (!build || build.transition === 'start') return undefined;
  const words = build.transition === 'stop' ? 'stopped' : 'deleted';
  const at = build.job.completed_at;
  return new AppError('gone', at ? `The workspace was ${words} at ${at}.` : `The workspace is being ${words}.`);
}
