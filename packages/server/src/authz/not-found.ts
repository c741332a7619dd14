import { AppError } from '@platform/kit';

/** The one refusal for what is absent and for what an actor may not know of: the two look alike. */
export function notFound(): AppError {
  return new AppError('not_found', 'Resource not found or you do not have access to this resource');
}
