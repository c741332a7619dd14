// Where the browser returns with a code. An address is registered as a whole and compared as text. The one exception is
// the port of a loopback address: programs of a person's own machine listen on any free port (RFC 8252, section 7.3).

import type { OAuth2AppRow } from '../../db/queries/oauth2-apps.ts';

const MAX_CHARACTERS = 4_096;
/** Schemes that a browser runs or opens itself, or that lead to no app. */
const REJECTED = new Set([
  'javascript:',
  'data:',
  'file:',
  'ftp:',
  'blob:',
  'about:',
  'vbscript:',
  'view-source:',
  'urn:',
]);
/** Other programs would get the code (RFC 8252). */
const NOT_OF_APPS = new Set(['mailto:', 'tel:', 'sms:']);

const isLoopback = ({ hostname }: URL): boolean =>
  hostname === '127.0.0.1' || hostname === '[::1]' || hostname === 'localhost';

/**
 * Why an address cannot be registered. Undefined if it can.
 * @param strict for apps that register themselves: `http` only for the person's own machine
 */
export function redirectProblem(text: string, strict: boolean): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: an address has none
  if (text.length > MAX_CHARACTERS || /[\u0000-\u0020\u007f]/.test(text)) return 'is not a valid URL';
  if (!URL.canParse(text)) return 'must be an absolute URL';
  const url = new URL(text);
  if (text.includes('#')) return 'must not have a fragment';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password';
  if (REJECTED.has(url.protocol) || NOT_OF_APPS.has(url.protocol)) return `must not have the scheme ${url.protocol}`;
  if (strict && url.protocol === 'http:' && !isLoopback(url) && !url.hostname.endsWith('.localhost'))
    return 'must use https, except on the loopback interface';
  return undefined;
}

/** The address without its port, if it is a loopback address of HTTP. */
function withoutPort(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (url.protocol !== 'http:' || !isLoopback(url)) return undefined;
  url.port = '';
  return url.href;
}

/** The address for a request: the one that it names, if the app has it, or the only one of the app. */
export function redirectFor(
  { redirect_uris: registered }: Pick<OAuth2AppRow, 'redirect_uris'>,
  given: string | undefined,
): string | undefined {
  if (given === undefined) return registered.length === 1 ? registered[0] : undefined;
  if (registered.includes(given)) return given;
  if (redirectProblem(given, false) !== undefined) return undefined;
  const bare = withoutPort(given);
  return bare !== undefined && registered.some((uri) => withoutPort(uri) === bare) ? given : undefined;
}

/** The address with further parameters in its query. */
export function redirectWith(redirectUri: string, parameters: Readonly<Record<string, string | undefined>>): string {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value);
  return url.href;
}

/** The receiver of the code, for a person: a host, or the scheme of a program. */
export function receiverOf(redirectUri: string): string {
  const url = new URL(redirectUri);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url.host : url.protocol;
}
