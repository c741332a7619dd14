import { AppError, errorText, isAppError } from '@platform/kit';

/** Runs a step and puts its name before the text of whatever it throws, as readers of job errors know it. */
export async function prefixed<T>(name: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (err) {
    const options = { cause: err, ...(isAppError(err) && err.detail !== undefined ? { detail: err.detail } : {}) };
    throw new AppError(isAppError(err) ? err.code : 'internal', `${name}: ${errorText(err)}`, options);
  }
}
