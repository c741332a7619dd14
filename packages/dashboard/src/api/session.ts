/** Pages that need no session. */
const OPEN = ['/login', '/setup', '/reset-password'];

export function isOpenPage(path: string): boolean {
  return OPEN.some((open) => path === open || path.startsWith(`${open}/`));
}

let leaving = false;

/** Opens the sign-in page, which returns to the current one. */
export function signedOut(): void {
  if (leaving || isOpenPage(location.pathname)) return;
  leaving = true;
  const here = location.pathname + location.search + location.hash;
  location.assign(`/login?${new URLSearchParams({ redirect: here })}`);
}

/**
 * The address to open after signing in: a page or an app of this server, whatever the link says. It needs a full load,
 * since apps are no pages of the dashboard.
 */
export function afterSignIn(redirect: string | undefined, origin: string = location.origin): string {
  const start = `${origin}/workspaces`;
  if (!redirect) return start;
  try {
    const url = new URL(redirect, origin);
    // the whole address: a path such as `//host` alone would name another server
    return url.origin === origin && !isOpenPage(url.pathname) ? url.href : start;
  } catch {
    return start;
  }
}
