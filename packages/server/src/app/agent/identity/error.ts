import { AppError } from '@ropewalk/kit';

/** The error for a proof that is rejected, with the reason. */
export function identityError(why: string, detail?: string): AppError {
  return new AppError(
    'unauthenticated',
    `Could not verify the identity of the instance: ${why}.`,
    detail ? { detail } : {},
  );
}
