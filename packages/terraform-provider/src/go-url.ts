/**
 * Parses addresses as Go's net/url does. Icons in templates may use anything that it accepts: `/icon/my app.svg` is a
 * valid address there, `/x%.svg` is not.
 */
const BAD_ESCAPE = /%(?![\da-f]{2})/i;
const USER = /^[\w\-.~:!$&'()*+,;=%@]*$/;
/** The ASCII characters of a host besides letters, digits and -_.~ */
const HOST = /^[\w\-.~!$&'()*+,;=:[\]<>"%\u0080-\u{10ffff}]*$/u;
/** A host may only escape bytes beyond ASCII. */
const HOST_ESCAPE = /%(?![89a-f][\da-f])/i;

const badEscape = (text: string): string | undefined => (BAD_ESCAPE.test(text) ? 'has an invalid % escape' : undefined);

function hostProblem(host: string): string | undefined {
  let name = host;
  let port = '';
  if (host.startsWith('[')) {
    const end = host.lastIndexOf(']');
    if (end < 0) return 'has a [ without ] in its host';
    port = host.slice(end + 1);
    const zone = host.slice(0, end).indexOf('%25');
    name = zone < 0 ? host.slice(0, end + 1) : host.slice(0, zone);
    const rest = zone < 0 ? undefined : badEscape(host.slice(zone, end));
    if (rest) return rest;
  } else if (host.includes(':')) {
    port = host.slice(host.lastIndexOf(':'));
  }
  if (!/^(:\d*)?$/.test(port)) return 'has an invalid port';
  if (HOST_ESCAPE.test(name)) return 'has an invalid % escape in its host';
  return HOST.test(name) ? undefined : 'has an invalid character in its host';
}

function authorityProblem(authority: string): string | undefined {
  const at = authority.lastIndexOf('@');
  const host = hostProblem(authority.slice(at + 1));
  if (host || at < 0) return host;
  const user = authority.slice(0, at);
  return USER.test(user) ? badEscape(user) : 'has an invalid character before its @';
}

/** Returns why Go would reject the text as an address. Every relative path is accepted. */
export function goUrlProblem(text: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text)) return 'has a control character';
  const hash = text.indexOf('#');
  const whole = hash < 0 ? text : text.slice(0, hash);
  const fragment = hash < 0 ? undefined : badEscape(text.slice(hash + 1));
  if (fragment) return fragment;
  if (whole.startsWith(':')) return 'lacks a scheme before its colon';
  const scheme = /^[a-z][a-z\d+.-]*:/i.exec(whole)?.[0] ?? '';
  let path = whole.slice(scheme.length).split('?')[0]!;
  if (!path.startsWith('/')) {
    if (scheme !== '') return undefined; // mailto:x and similar have no parts.
    if (path.split('/')[0]!.includes(':')) return 'has a colon before its first slash, but no scheme';
  } else if (path.startsWith('//') && (scheme !== '' || !path.startsWith('///'))) {
    const end = path.indexOf('/', 2);
    const authority = authorityProblem(path.slice(2, end < 0 ? undefined : end));
    if (authority) return authority;
    path = end < 0 ? '' : path.slice(end);
  }
  return badEscape(path);
}

/**
 * Returns why a browser of the person could not open an address: it needs a scheme and a host, as upstream's provider
 * requires. `localhost:8080` has the scheme `localhost`.
 */
export function externalUrlProblem(text: string): string | undefined {
  const invalid = goUrlProblem(text);
  if (invalid) return invalid;
  const scheme = /^([a-z][a-z\d+.-]*):/i.exec(text)?.[1];
  if (scheme === undefined) return 'must include a scheme, for example "https://"';
  const authority = /^\/\/([^/?#]*)/.exec(text.slice(scheme.length + 1))?.[1] ?? '';
  const host = authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '');
  return host === '' || host === '[]'
    ? `must include a host: ${JSON.stringify(scheme)} is read as its scheme`
    : undefined;
}
