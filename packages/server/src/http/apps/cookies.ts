/** A cookie for an app's host or path, which scripts cannot read, as the value of a Set-Cookie header. */
export function appCookie(
  name: string,
  { value, path, maxAgeMs }: { value: string; path: string; maxAgeMs: number },
  isSecure: boolean,
): string {
  const secure = isSecure ? '; Secure' : '';
  return `${name}=${value}; Path=${path}; Max-Age=${Math.floor(maxAgeMs / 1000)}; HttpOnly; SameSite=Lax${secure}`;
}
