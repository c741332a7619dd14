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
  const query = request.query as Record<string, unknown> | undefined;
  const bearer = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
  const places: [unknown, boolean][] = [
    [cookieValue(request.headers.cookie, SESSION_COOKIE), true],
    [query?.[SESSION_COOKIE], false],
    [request.headers[SESSION_HEADER], false],
    [bearer, false],
    [query?.['access_token'], false],
  ];
  const found = places.find(([value]) => typeof value === 'string' && value !== '');
  return found ? { token: found[0] as string, fromCookie: found[1] } : undefined;
}

/** Rejects requests that another site in the browser sends. */
export function checkOrigin({ headers }: FastifyRequest, allowedHosts: readonly string[]): void {
  const { origin } = headers;
  if (origin === undefined) return;
  const host = URL.canParse(origin) ? new URL(origin).host : '';
  if (host === headers.host || allowedHosts.includes(host)) return;
  throw new AppError('forbidden', 'Requests from another site are not allowed.', { detail: `Origin: ${origin}` });
}

/**
 * Prevents another site in the browser from acting with this site's cookie. Writes need the CSRF token of the cookie's
 * own page. Upgrades need an Origin of this server. Programs send no Origin.
 */
export function checkForgery(request: FastifyRequest, fromCookie: boolean, allowedHosts: readonly string[]): void {
  const { origin } = request.headers;
  const upgrade = request.headers.upgrade !== undefined;
  if (upgrade || fromCookie) checkOrigin(request, allowedHosts);
  if (fromCookie && !upgrade && !/^(GET|HEAD|OPTIONS)$/.test(request.method)) {
    if (origin !== undefined) return; // checked above: it is this server's
    const sent = request.headers['x-csrf-token'];
    if (!sent || sent !== cookieValue(request.headers.cookie, CSRF_COOKIE)) {
      throw new AppError('forbidden', 'A request with a session cookie needs the X-CSRF-TOKEN header.');
    }
  }
}
