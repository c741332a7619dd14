import { AppError } from '@ropewalk/kit';

/** The error for a proof that is rejected, with the reason. */
export function identityError(why: string, detail?: string): AppError {
  return new AppError(
    'unauthenticated',
    `The identity of the instance is not proven: ${why}.`,
    detail ? { detail } : {},
  );
}
