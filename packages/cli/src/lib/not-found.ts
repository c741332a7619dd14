import { ApiError } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';

/** Replaces the server's "Resource not found" with a text that names the resource. */
export async function orNotFound<T>(answer: Promise<T>, text: string): Promise<T> {
  try {
    return await answer;
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) throw new AppError('not_found', text, { cause: err });
    throw err;
  }
}
