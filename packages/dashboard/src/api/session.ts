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

/** The page to open after signing in: a path of this server, whatever the link says. */
export function afterSignIn(redirect: string | undefined): string {
  if (!redirect) return '/workspaces';
  try {
    const url = new URL(redirect, location.origin);
    return url.origin === location.origin ? url.pathname + url.search + url.hash : '/workspaces';
  } catch {
    return '/workspaces';
  }
}
