import type { IncomingHttpHeaders } from 'node:http';
import { isUuid } from '../app/values/ids.ts';
import type { Config } from '../config/options.ts';
import { SESSION_COOKIE } from './auth.ts';

/**
 * The session cookie with the prefix of upstream's `--host-prefix-cookie`. Browsers take a cookie with it only over
 * HTTPS from the host itself, so no other host of the same domain can plant one.
 */
export const HOST_SESSION_COOKIE = `__Host-${SESSION_COOKIE}`;

export const sessionCookieName = ({ hostPrefixCookie }: Pick<Config, 'hostPrefixCookie'>): string =>
  hostPrefixCookie ? HOST_SESSION_COOKIE : SESSION_COOKIE;

/**
 * Gives the prefixed session cookie of a request its plain name, which everything behind this reads, and removes a plain
 * one, which another host may have planted. Agents send their token as a plain cookie. It is a UUID, as no session is.
 */
export function takePrefixedSession(headers: IncomingHttpHeaders): void {
  // for browsers, a name after another blank, such as a no-break space, has no prefix
  const pairs = headers.cookie?.split(';').map((pair) => pair.replace(/^[ \t]+/, '').trimEnd()) ?? [];
  const ofSession = (name: string) => pairs.filter((pair) => pair.startsWith(`${name}=`));
  const prefixed = ofSession(HOST_SESSION_COOKIE);
  const plain = ofSession(SESSION_COOKIE);
  if (prefixed.length === 0 && plain.length === 0) return;
  const others = pairs.filter((pair) => !prefixed.includes(pair) && !plain.includes(pair));
  const session =
    prefixed.length > 0
      ? prefixed.map((pair) => pair.slice('__Host-'.length))
      : plain.filter((pair) => isUuid(pair.slice(SESSION_COOKIE.length + 1)));
  const kept = [...session, ...others];
  if (kept.length > 0) headers.cookie = kept.join('; ');
  else delete headers.cookie;
}
