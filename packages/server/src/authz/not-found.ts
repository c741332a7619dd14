import { AppError } from '@ropewalk/kit';

/** The error both for an absent object and for one that the actor may not see, so that they look alike. */
export function notFound(): AppError {
  return new AppError('not_found', 'Resource not found or you do not have access to this resource');
}
