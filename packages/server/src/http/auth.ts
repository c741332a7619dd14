import { AppError } from '@ropewalk/kit';
import type { FastifyRequest } from 'fastify';
import { cookieValue } from './cookies.ts';

export const SESSION_COOKIE = 'coder_session_token';
export const SESSION_HEADER = 'coder-session-token';
const CSRF_COOKIE = 'csrf_token';

/** The token of a request, looked up in upstream's order of places, and whether the browser sent it by itself. */
export function requestToken(
  request: Pick<FastifyRequest, 'headers' | 'query'>,
): { token: string; fromCookie: boolean } | undefined {
  const { headers } = request;
  const query = request.query as Record<string, unknown> | undefined;
  const fromCookie = cookieValue(headers.cookie, SESSION_COOKIE);
  if (fromCookie) return { token: fromCookie, fromCookie: true };
  const token =
    given(query?.[SESSION_COOKIE]) ??
    given(headers[SESSION_HEADER]) ??
    bearerOf(headers.authorization) ??
    given(query?.['access_token']);
  return token ? { token, fromCookie: false } : undefined;
}

const bearerOf = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^Bearer (.+)$/i.exec(header)?.[1];

const given = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Rejects requests that another site in the browser sends. */
export function checkOrigin({ headers }: FastifyRequest, accessUrl: string): void {
  const { origin } = headers;
  if (origin === undefined) return;
  const host = URL.canParse(origin) ? new URL(origin).host : '';
  if (host === headers.host || host === new URL(accessUrl).host) return;
  throw new AppError('forbidden', 'Requests from another site are not allowed.', { detail: `Origin: ${origin}` });
}

/**
 * Prevents another site in the browser from acting with this site's cookie. Writes need the CSRF token of the cookie's
 * own page. Upgrades need an Origin of this server. Programs send no Origin.
 */
export function checkForgery(request: FastifyRequest, fromCookie: boolean, accessUrl: string): void {
  const { origin } = request.headers;
  const upgrade = request.headers.upgrade !== undefined;
  if (upgrade || fromCookie) checkOrigin(request, accessUrl);
  if (fromCookie && !upgrade && !/^(GET|HEAD|OPTIONS)$/.test(request.method)) {
    if (origin !== undefined) return; // checked above: it is this server's
    const sent = request.headers['x-csrf-token'];
    if (!sent || sent !== cookieValue(request.headers.cookie, CSRF_COOKIE)) {
      throw new AppError('forbidden', 'A request with a session cookie needs the X-CSRF-TOKEN header.');
    }
  }
}
