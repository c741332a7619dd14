/** Pages that lead to a session. */
const ENTRIES = ['/login', '/setup', '/reset-password'];
/** Pages that need no session. */
const OPEN = [...ENTRIES, '/api-reference'];

const isBelow = (path: string, tops: readonly string[]): boolean =>
  tops.some((top) => path === top || path.startsWith(`${top}/`));

let leaving = false;

/** Opens the sign-in page, which returns to the current one. False on pages that need no session. */
export function signedOut(): boolean {
  if (isBelow(location.pathname, OPEN)) return false;
  if (!leaving) {
    leaving = true;
    const here = location.pathname + location.search + location.hash;
    location.assign(`/login?${new URLSearchParams({ redirect: here })}`);
  }
  return true;
}

/**
 * The address to open after signing in: a page or an app of this server, whatever the link says. It needs a full load,
 * since apps are not part of the dashboard.
 */
export function afterSignIn(redirect: string | undefined, origin: string = location.origin): string {
  const start = `${origin}/workspaces`;
  if (!redirect) return start;
  try {
    const url = new URL(redirect, origin);
    // the whole address: a path such as `//host` alone would name another server
    return url.origin === origin && !isBelow(url.pathname, ENTRIES) ? url.href : start;
  } catch {
    return start;
  }
}
