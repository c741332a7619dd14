import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { AppError } from '@ropewalk/kit';

/** Probes of load balancers use an address of the machine, and so may relays and their checks. */
const PROBES = /^\/(healthz|readyz|latency-check|derp|derp\/latency-check)(\?|$)/;

/**
 * Where to send a request that came to another address than the access URL. Undefined for requests at the access URL, at
 * a host of an app, and from probes. What a proxy says about the request is believed: who invents it avoids nothing but
 * the redirect.
 */
export function redirectTarget(
  request: IncomingMessage,
  { accessUrl, isAppHost }: { accessUrl: string; isAppHost: (host: string) => boolean },
): string | undefined {
  const { headers, socket, url = '/' } = request;
  const at = new URL(accessUrl);
  if (PROBES.test(url)) return undefined;
  const said = (name: string) => `${headers[name] ?? ''}`.split(',')[0]!.trim();
  const isSecure = (socket as TLSSocket).encrypted === true || said('x-forwarded-proto') === 'https';
  const host = headers.host ?? '';
  const atHost = host === at.host || said('x-forwarded-host') === at.host || isAppHost(host);
  if (atHost && (at.protocol !== 'https:' || isSecure)) return undefined;
  return `${at.origin}${url.startsWith('/') ? url : '/'}`;
}

/** The value of Strict-Transport-Security, or undefined if the header is not sent. */
export function strictTransportSecurity(seconds: number, options: readonly string[]): string | undefined {
  if (seconds === 0) return undefined;
  if (seconds < 0) throw new AppError('invalid', '--strict-transport-security must not be negative.');
  const directives = options.map((option) => {
    const known = ['includeSubDomains', 'preload'].find((name) => name.toLowerCase() === option.trim().toLowerCase());
    if (!known) {
      throw new AppError(
        'invalid',
        `Unknown --strict-transport-security-options value "${option}": use includeSubDomains or preload.`,
      );
    }
    return known;
  });
  return [`max-age=${seconds}`, ...directives].join('; ');
}
