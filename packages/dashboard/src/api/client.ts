import { type CallInput, createClient } from '@ropewalk/client/client';
import type { RouteAnswer, RouteKey } from '@ropewalk/contract';
import { learnServerTime } from '../util/time.ts';
import { statusOf } from './errors.ts';
import { signedOut } from './session.ts';

/** The longest body of a request that outlives its window, in characters. */
const MAX_KEPT_BODY = 8_192;

/** Whether the window is hidden or goes away. */
let leaving = false;
const update = (event: Event) => {
  leaving = event.type === 'pagehide' || document.visibilityState === 'hidden';
};
// before the listeners of others, who send requests
for (const name of ['pagehide', 'pageshow']) addEventListener(name, update, { capture: true });
document.addEventListener('visibilitychange', update, { capture: true });

/** The browser sends the session cookie, so there is no token here. */
export const client = createClient({
  url: location.origin,
  token: '',
  // what the person did before the window goes away is sent even so. The browser takes only small bodies of such requests
  fetch: (url, { body, ...init }) =>
    fetch(url, {
      ...init,
      ...(body === undefined ? {} : { body }),
      keepalive: leaving && (body === undefined || (typeof body === 'string' && body.length <= MAX_KEPT_BODY)),
    }),
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
