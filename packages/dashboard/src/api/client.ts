import { type CallInput, createClient } from '@platform/client/client';
import type { RouteAnswer, RouteKey } from '@platform/contract';
import { learnServerTime } from '../util/time.ts';

/** The browser sends the session cookie, so there is no token here. */
export const client = createClient({
  url: location.origin,
  token: '',
  fetch: (url, init) => fetch(url, init),
  onAnswer: (headers) => learnServerTime(headers.get('date')),
});

/** Calls a route of the API. @throws ApiError, UnreachableError */
export const call = client.call;

export type { CallInput, RouteAnswer, RouteKey };
