/**
 * Decides which headers pass between a browser and an app. Headers are in Node's raw form: name and value in turn, as
 * they came.
 */
import type { AppKind } from '../../app/values/app-address.ts';

/** The cookie with the signed grant, on the app's own host or path. */
export const GRANT_COOKIE = 'coder_signed_app_token';
/** The cookie with the session on an app's own host. */
export const APP_SESSION_COOKIE = 'coder_subdomain_app_session_token';

const OUR_COOKIES = new Set([
  'coder_session_token',
  '__Host-coder_session_token',
  'coder_path_app_session_token',
  'coder_known_device',
  APP_SESSION_COOKIE,
  GRANT_COOKIE,
  'oauth_state',
  'oauth_redirect',
  'oauth_pkce_verifier',
]);
/** This server's cookies on the dashboard's host. On other hosts they may belong to the app. */
const CSRF_COOKIE = 'csrf_token';
const isOurs = (name: string, kind: AppKind) => OUR_COOKIES.has(name) || (kind === 'path' && name === CSRF_COOKIE);

/** Headers of one connection, not of the message. */
const HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const OUR_TOKEN = /^\s*(?:Bearer\s+)?[0-9A-Za-z]{10}-[0-9A-Za-z]{22}\s*$/i;
/** Headers that would apply to the whole origin of the dashboard. */
const ORIGIN_WIDE = new Set(['alt-svc', 'clear-site-data', 'service-worker-allowed', 'strict-transport-security']);

/** The names that the Connection header declares to belong to this hop. */
function namedHops(raw: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 10 || raw[i]!.toLowerCase() !== 'connection') continue;
    for (const part of raw[i + 1]!.split(',')) {
      const name = part.trim().toLowerCase();
      if (name === 'keep-alive' || name === 'close' || name === 'upgrade' || name === '') continue;
      named ??= new Set();
      named.add(name);
    }
  }
  return named;
}

/** A Cookie header without this server's cookies. Undefined if nothing is left. */
function withoutOurCookies(header: string, kind: AppKind): string | undefined {
  const kept = header.split(';').filter((part) => {
    const at = part.indexOf('=');
    return !isOurs((at < 0 ? part : part.slice(0, at)).trim(), kind);
  });
  const text = kept.join(';').trim();
  return text === '' ? undefined : text;
}

export interface Forwarded {
  /** The value of X-Forwarded-For: the client and the trusted proxy. The client's own value is dropped. */
  forwardedFor: string;
  host: string;
  proto: string;
  kind: AppKind;
}

/** The headers of a request for the app, without Content-Length and Transfer-Encoding, which the sender adds. */
export function towardsApp(raw: readonly string[], by: Forwarded): string[] {
  const named = namedHops(raw);
  const out: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    const value = raw[i + 1]!;
    if (HOP.has(name) || named?.has(name)) continue;
    switch (name) {
      case 'content-length':
      case 'expect':
      case 'coder-session-token':
      case 'x-forwarded-for':
      case 'x-forwarded-host':
      case 'x-forwarded-proto':
        continue;
      case 'authorization':
        if (OUR_TOKEN.test(value)) continue;
        break;
      case 'x-csrf-token':
        if (by.kind === 'path') continue;
        break;
      // the address of the previous page may contain a token
      case 'referer':
        out.push(raw[i]!, withoutTokens(value));
        continue;
      case 'cookie': {
        const kept = withoutOurCookies(value, by.kind);
        if (kept !== undefined) out.push(raw[i]!, kept);
        continue;
      }
    }
    out.push(raw[i]!, value);
  }
  out.push('X-Forwarded-For', by.forwardedFor, 'X-Forwarded-Host', by.host, 'X-Forwarded-Proto', by.proto);
  return out;
}

/** Whether an app may set this cookie. It must not be one of this server's, nor be for other hosts. */
function maySet(cookie: string, kind: AppKind, host: string): boolean {
  const [pair, ...attributes] = cookie.split(';');
  // a cookie without a name comes back as if its value were name and value
  if (/^\s*=/.test(pair!) || !pair!.includes('=')) return false;
  if (isOurs(pair!.split('=', 1)[0]!.trim(), kind)) return false;
  return attributes.every((attribute) => {
    const [name, value = ''] = attribute.split('=', 2).map((part) => part.trim().toLowerCase());
    return name !== 'domain' || value === '' || value.replace(/^\./, '') === host;
  });
}

/**
 * The headers of an answer for the browser, Content-Length included.
 * @param host the host of the request, without its port
 */
export function towardsBrowser(raw: readonly string[], kind: AppKind, host: string): string[] {
  const named = namedHops(raw);
  const out: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    const value = raw[i + 1]!;
    if (HOP.has(name) || named?.has(name)) continue;
    if (name === 'set-cookie' && !maySet(value, kind, host)) continue;
    if (kind === 'path' && ORIGIN_WIDE.has(name)) continue;
    out.push(raw[i]!, value);
  }
  return out;
}

/** Decodes percent escapes and plus signs, as the server reads a query. */
function decoded(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

/** Whether a part of a query has a session token: by its name, or by its value under a name that apps use, too. */
function holdsToken(part: string): boolean {
  const at = part.indexOf('=');
  const name = decoded(at < 0 ? part : part.slice(0, at));
  return name === 'coder_session_token' || (name === 'access_token' && OUR_TOKEN.test(decoded(part.slice(at + 1))));
}

/** A request target or an address without the session tokens that a program may have put into its query. */
export function withoutTokens(target: string): string {
  const at = target.indexOf('?');
  if (at < 0) return target;
  const end = target.indexOf('#', at);
  const query = target.slice(at + 1, end < 0 ? undefined : end);
  const parts = query.split('&');
  const kept = parts.filter((part) => !holdsToken(part));
  if (kept.length === parts.length) return target;
  return target.slice(0, at) + (kept.length > 0 ? `?${kept.join('&')}` : '') + (end < 0 ? '' : target.slice(end));
}

/** Headers in raw form as pairs of name and value. */
export function pairs(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i]!, raw[2 * i + 1]!]);
}
