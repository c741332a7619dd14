import type { Duplex } from 'node:stream';
import { ApiError } from '@platform/client';
import { AppError } from '@platform/kit/errors';

/** What the server said when it let a tunnel not go on, such as that the workspace was stopped. */
export function refusalOf(err: unknown): ApiError | undefined {
  return err instanceof ApiError ? err : undefined;
}

/** Why a tunnel is over that should have gone on. */
export function lossOf(stream: Duplex): Error {
  return refusalOf(stream.errored) ?? new AppError('unavailable', 'The connection to the workspace was lost.');
}
