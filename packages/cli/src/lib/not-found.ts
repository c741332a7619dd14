import { ApiError } from '@platform/client';
import { AppError } from '@platform/kit/errors';

/** Says what was not found, instead of the server's "resource". */
export async function orNotFound<T>(answer: Promise<T>, text: string): Promise<T> {
  try {
    return await answer;
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) throw new AppError('not_found', text, { cause: err });
    throw err;
  }
}
