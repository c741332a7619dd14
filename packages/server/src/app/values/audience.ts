// The resource that a token is for (RFC 8707): this server, or a part of it. A token for a part works only with paths
// that begin with the path of the resource.

/** The resource in its normal form: scheme and host in lower case, no default port, no slash at the end. */
function normalized(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  url.pathname = url.pathname.replace(/\/+$/, '');
  return url;
}

const within = (path: string, place: string): boolean =>
  place === '/' || path === place || path.startsWith(place.endsWith('/') ? place : `${place}/`);

/** Whether a token for this audience may be used at this path. Without a path, only one for the whole server may. */
export function audienceIncludes(audience: string, accessUrl: string, path?: string): boolean {
  const wanted = normalized(audience);
  const own = normalized(accessUrl);
  if (!wanted || !own || wanted.origin !== own.origin) return false;
  if (within(own.pathname, wanted.pathname)) return true;
  return path !== undefined && URL.canParse(path, own) && within(new URL(path, own).pathname, wanted.pathname);
}

/**
 * Checks the resource that a client asks for. Returns it in its normal form, or undefined if this server does not have
 * it: a resource is an absolute URI without a fragment, of this server.
 */
export function ownResource(resource: string, accessUrl: string): string | undefined {
  const url = normalized(resource);
  const own = normalized(accessUrl);
  if (!url || !own || resource.includes('#') || url.search !== '' || url.username !== '' || url.password !== '')
    return undefined;
  if (url.origin !== own.origin || !within(url.pathname, own.pathname)) return undefined;
  return url.pathname === '/' ? url.origin : url.href;
}
