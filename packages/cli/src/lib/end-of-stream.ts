import type { Duplex } from 'node:stream';
import { ApiError, type Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { findWorkspace, type Target } from './workspace.ts';

/** The longest wait for the reason of a connection's end. */
const MAX_ASKING_MS = 3_000;

/** The connection ended before the session did, and the server gave no reason. */
export class ConnectionLost extends AppError {
  constructor() {
    super('unavailable', 'The connection to the workspace was lost.');
  }
}

/** The server's reason for ending a tunnel, such as that the workspace was stopped. */
export function rejectionOf(err: unknown): ApiError | undefined {
  return err instanceof ApiError ? err : undefined;
}

/** Why a tunnel ended before its session. */
export function lossOf(stream: Duplex): Error {
  return rejectionOf(stream.errored) ?? new ConnectionLost();
}

/** Asks whether a workspace was stopped or deleted: an agent that stops ends its sessions without a reason. */
export async function endOfWorkspace(client: Client, target: Target): Promise<AppError | undefined> {
  const asking = findWorkspace(client, target.workspace).catch(() => undefined);
  const tooLong = new Promise<void>((resolve) => setTimeout(resolve, MAX_ASKING_MS).unref());
  const found = await Promise.race([asking, tooLong]);
  const build = found?.latest_build;
  if (!build || build.transition === 'start') return undefined;
  const words = build.transition === 'stop' ? 'stopped' : 'deleted';
  const at = build.job.completed_at;
  return new AppError('gone', at ? `The workspace was ${words} at ${at}.` : `The workspace is being ${words}.`);
}
