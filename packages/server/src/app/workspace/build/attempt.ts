import { isAppError } from '@ropewalk/kit';

/** Why the server could not begin a build by itself, for people. The log has what they cannot use. */
export function attemptError(err: unknown): string {
  if (!isAppError(err)) return 'The server failed to begin the build. Its log says why.';
  const fields = (err.validations ?? []).map(({ field, detail }) => `${field}: ${detail}`);
  return [err.message, err.detail, ...fields].filter(Boolean).join(' ');
}
