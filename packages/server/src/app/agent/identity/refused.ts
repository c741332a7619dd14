import { AppError } from '@platform/kit';

/** A proof that is not believed, with the reason. */
export function refused(why: string, detail?: string): AppError {
  return new AppError(
    'unauthenticated',
    `The identity of the instance is not proven: ${why}.`,
    detail ? { detail } : {},
  );
}
