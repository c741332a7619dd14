import { AppError, type ErrorCode, isAppError } from './errors.ts';

/** What only the process that a person asked can know, such as permissions, another one does not decide. */
const PASSED_ON: readonly ErrorCode[] = ['unavailable', 'unsupported'];

/** An error as text for another process of the deployment. @param unexpected what people read about any other error */
export function errorToText(err: unknown, unexpected: string): string {
  if (!isAppError(err)) return JSON.stringify({ message: unexpected });
  return JSON.stringify({ code: err.code, message: err.message, detail: err.detail });
}

/**
 * The error in a text of errorToText. Any other text is the message of an `unavailable` one.
 * @param codes those that the other process may decide. Every other one becomes `unavailable`
 */
export function errorFromText(text: string, codes: readonly ErrorCode[] = PASSED_ON): AppError {
  try {
    const { code, message, detail } = JSON.parse(text) as { code?: ErrorCode; message: string; detail?: string };
    const known = code !== undefined && codes.includes(code) ? code : 'unavailable';
    return new AppError(known, message, detail === undefined ? {} : { detail });
  } catch {
    return new AppError('unavailable', text);
  }
}
