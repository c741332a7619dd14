import { ApiError, UnreachableError } from '@platform/client/errors';

export { ApiError, UnreachableError };

/** What a person reads about an error: a sentence, and a second one with details if the server sent some. */
export interface ErrorText {
  title: string;
  detail: string;
}

export function errorText(err: unknown): ErrorText {
  if (err instanceof ApiError) {
    const fields = err.validations.map(({ field, detail }) => `${field}: ${detail}`).join('\n');
    return { title: err.message, detail: err.detail || fields };
  }
  if (isUnreachable(err))
    return { title: 'The server cannot be reached.', detail: 'The page continues by itself once it answers.' };
  return { title: 'Something went wrong in this page.', detail: err instanceof Error ? err.message : String(err) };
}

/** Browsers report a failed connection as a TypeError of `fetch`. */
export function isUnreachable(err: unknown): boolean {
  return (
    err instanceof UnreachableError || (err instanceof TypeError && /fetch|network|load failed/i.test(err.message))
  );
}

export const statusOf = (err: unknown): number | undefined => (err instanceof ApiError ? err.status : undefined);
