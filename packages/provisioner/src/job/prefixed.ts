import { AppError, errorText, isAppError } from '@ropewalk/kit';

/** Runs a step and prefixes its name to the text of any error, as in upstream's job errors. */
export async function prefixed<T>(name: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (err) {
    const options = { cause: err, ...(isAppError(err) && err.detail !== undefined ? { detail: err.detail } : {}) };
    throw new AppError(isAppError(err) ? err.code : 'internal', `${name}: ${errorText(err)}`, options);
  }
}
