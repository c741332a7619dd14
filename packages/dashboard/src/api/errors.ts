import { ApiError, UnreachableError } from '@ropewalk/client/errors';

export { ApiError, UnreachableError };

/** What a person reads about an error: a sentence, and a second one with details if the server sent some. */
export interface ErrorText {
  title: string;
  detail: string;
}

/** Describes any thrown value to a person. */
export function errorText(err: unknown): ErrorText {
  if (err instanceof ApiError) {
    const fields = err.validations.map(({ field, detail }) => `${field}: ${detail}`).join('\n');
    return { title: err.message, detail: err.detail || fields };
  }
  if (isUnreachable(err))
    return { title: 'The server cannot be reached.', detail: 'The page updates when the server answers again.' };
  return { title: 'Something went wrong in this page.', detail: err instanceof Error ? err.message : String(err) };
}

/** An error in one line. */
export function errorLine(err: unknown): string {
  const { title, detail } = errorText(err);
  return [title, detail].filter(Boolean).join(' ');
}

/** Browsers report a failed connection as a TypeError of `fetch`. */
export function isUnreachable(err: unknown): boolean {
  return (
    err instanceof UnreachableError || (err instanceof TypeError && /fetch|network|load failed/i.test(err.message))
  );
}

export const statusOf = (err: unknown): number | undefined => (err instanceof ApiError ? err.status : undefined);

/** What the server says about one field of a form, as a sentence. */
export function fieldError(err: unknown, ...fields: string[]): string | undefined {
  if (!(err instanceof ApiError)) return undefined;
  const found = err.validations.find(({ field }) => fields.includes(field));
  return found && found.detail.charAt(0).toUpperCase() + found.detail.slice(1);
}

/** Whether an error says something that no field of the form shows. */
export function isBeyondFields(err: unknown, fields: readonly string[]): boolean {
  if (!(err instanceof ApiError) || err.validations.length === 0) return err !== null && err !== undefined;
  return err.validations.some(({ field }) => !fields.includes(field));
}
