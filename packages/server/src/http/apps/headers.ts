/**
 * What goes through between a browser and an app, and what does not. Headers are in Node's raw form: name and value in
 * turn, as they came.
 */
import type { AppKind } from '../../app/workspace-app/address.ts';

/** Of the signed grant, on the app's own host or path. */
export const GRANT_COOKIE = 'coder_signed_app_token';
/** Of the session on an app's own host. */
export const APP_SESSION_COOKIE = 'coder_subdomain_app_session_token';

const OUR_COOKIES = new Set([
  'coder_session_token',
  'coder_path_app_session_token',
  'coder_known_device',
  APP_SESSION_COOKIE,
  GRANT_COOKIE,
  'oauth_state',
  'oauth_redirect',
  'oauth_pkce_verifier',
]);
/** Ours on the dashboard's host; elsewhere it may be the app's. */
const CSRF_COOKIE = 'csrf_token';
const isOurs = (name: string, kind: AppKind) => OUR_COOKIES.has(name) || (kind === 'path' && name === CSRF_COOKIE);

/** Of one connection, not of the message. */
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
/** They would speak for all of the dashboard's origin. */
const ORIGIN_WIDE = new Set(['alt-svc', 'clear-site-data', 'service-worker-allowed', 'strict-transport-security']);

/** Names that Connection declares to be of this hop, too. */
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

/** A Cookie header without ours; undefined where nothing is left. */
function withoutOurCookies(header: string, kind: AppKind): string | undefined {
  const kept = header.split(';').filter((part) => {
    const at = part.indexOf('=');
    return !isOurs((at < 0 ? part : part.slice(0, at)).trim(), kind);
  });
  const text = kept.join(';').trim();
  return text === '' ? undefined : text;
}

export interface Forwarded {
  /** The client, and the trusted proxy between, as X-Forwarded-For has them. What a client says there is dropped. */
  forwardedFor: string;
  host: string;
  proto: string;
  kind: AppKind;
}

/** What of a request's headers the app gets. Framing is left to who sends: no Content-Length, no Transfer-Encoding. */
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
      // the page before may have been opened with a token in its address
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

/** Whether an app may set this cookie: not one of ours, and not for hosts beside its own. */
function maySet(cookie: string, kind: AppKind, host: string): boolean {
  const [pair, ...attributes] = cookie.split(';');
  // without a name, its value comes back as if it were name and value
  if (/^\s*=/.test(pair!) || !pair!.includes('=')) return false;
  if (isOurs(pair!.split('=', 1)[0]!.trim(), kind)) return false;
  return attributes.every((attribute) => {
    const [name, value = ''] = attribute.split('=', 2).map((part) => part.trim().toLowerCase());
    return name !== 'domain' || value === '' || value.replace(/^\./, '') === host;
  });
}

/**
 * What of an answer's headers the browser gets, Content-Length included.
 * @param host of the request, without its port.
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

/** As the server reads a query: percent signs and plus signs decoded. */
function decoded(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

/** Whether a part of a query holds a session token of ours: by its name, or by what it is under the name apps use, too. */
function holdsToken(part: string): boolean {
  const at = part.indexOf('=');
  const name = decoded(at < 0 ? part : part.slice(0, at));
  return name === 'coder_session_token' || (name === 'access_token' && OUR_TOKEN.test(decoded(part.slice(at + 1))));
}

/** A request target or an address without session tokens in its query, where a program may have put one for us. */
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
