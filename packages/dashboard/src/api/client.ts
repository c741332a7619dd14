import { type CallInput, createClient } from '@platform/client/client';
import type { RouteAnswer, RouteKey } from '@platform/contract';
import { learnServerTime } from '../util/time.ts';
import { statusOf } from './errors.ts';
import { signedOut } from './session.ts';

/** The browser sends the session cookie, so there is no token here. */
export const client = createClient({
  url: location.origin,
  token: '',
  fetch: (url, init) => fetch(url, init),
  onAnswer: (headers) => learnServerTime(headers.get('date')),
});

/**
 * Calls a route of the API. If the session has ended, the sign-in page opens, and the call stays pending until it does:
 * pages show no error in between. @throws ApiError, UnreachableError
 */
export const call: typeof client.call = async (...input) => {
  try {
    return await client.call(...input);
  } catch (err) {
    if (statusOf(err) === 401 && signedOut()) return new Promise<never>(() => {});
    throw err;
  }
};

export type { CallInput, RouteAnswer, RouteKey };
