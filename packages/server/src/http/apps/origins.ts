import type { IncomingMessage } from 'node:http';
import { type AppAddress, hostName, parseAppHost, type Wildcard } from '../../app/values/app-address.ts';

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

/** The app of the same owner whose page sent this request from another host, if any. */
function sibling(wildcard: Wildcard | undefined, request: IncomingMessage, address: AppAddress): string | undefined {
  const { origin } = request.headers;
  if (!wildcard || address.kind !== 'subdomain' || origin === undefined || !URL.canParse(origin)) return undefined;
  const from = parseAppHost(wildcard, new URL(origin).host);
  return from && from.user.toLowerCase() === address.user.toLowerCase() ? origin : undefined;
}

/**
 * Whether a request comes from a page that may act with the visitor's rights: a page of the app itself, of an app of the
 * same owner, or of the dashboard for apps on their own hosts. Apps of different people share a site, so browsers send
 * cookies between them.
 */
export function sharesOwner(
  wildcard: Wildcard | undefined,
  dashboardUrl: string,
  request: IncomingMessage,
  address: AppAddress,
): boolean {
  const { origin, host, upgrade } = request.headers;
  if (origin === undefined || (upgrade === undefined && SAFE.has(request.method!))) return true;
  if (!URL.canParse(origin)) return false;
  const from = new URL(origin);
  if (from.host === host?.toLowerCase()) return true;
  if (address.kind === 'path') return false;
  return from.origin === new URL(dashboardUrl).origin || sibling(wildcard, request, address) !== undefined;
}

/** Headers in raw form that let pages of the same owner's other apps read the answer. */
export function withCors(wildcard: Wildcard | undefined, request: IncomingMessage, address: AppAddress): string[] {
  if (request.headers.origin === undefined) return [];
  const origin = sibling(wildcard, request, address);
  if (origin === undefined || hostName(new URL(origin).host) === address.base) return [];
  return ['Access-Control-Allow-Origin', origin, 'Access-Control-Allow-Credentials', 'true', 'Vary', 'Origin'];
}

/** The headers in raw form that answer a preflight of a page of the same owner's apps. A preflight has no cookies. */
export function preflight(
  wildcard: Wildcard | undefined,
  request: IncomingMessage,
  address: AppAddress,
): string[] | undefined {
  const { 'access-control-request-method': method, 'access-control-request-headers': names } = request.headers;
  if (request.method !== 'OPTIONS' || typeof method !== 'string') return undefined;
  if (sibling(wildcard, request, address) === undefined) return undefined;
  return [
    ...withCors(wildcard, request, address),
    'Access-Control-Allow-Methods',
    method,
    ...(typeof names === 'string' ? ['Access-Control-Allow-Headers', names] : []),
  ];
}
