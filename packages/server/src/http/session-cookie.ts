import type { Ctx } from '../app/context/context.ts';
import { type Config, options } from '../config/options.ts';
import { sessionCookieName } from './host-cookies.ts';

/** The attributes of cookies that scripts of the browser must not read. */
export function cookieAttributes(ctx: Pick<Ctx, 'config' | 'accessUrl'>): string {
  const { secureAuthCookie, hostPrefixCookie } = ctx.config;
  const secure = secureAuthCookie || hostPrefixCookie || ctx.accessUrl.startsWith('https:');
  // browsers accept None only with Secure
  const sameSite = ctx.config.samesiteAuthCookie === 'none' && secure ? 'None' : 'Lax';
  return `HttpOnly; SameSite=${sameSite}${secure ? '; Secure' : ''}`;
}

/** The cookie that keeps a browser signed in. Programs take the token from the body of the answer. */
export function sessionCookie(ctx: Pick<Ctx, 'config' | 'accessUrl'>, token: string): string {
  const age = Math.floor(ctx.config.sessionDuration / 1_000);
  return `${sessionCookieName(ctx.config)}=${token}; Path=/; Max-Age=${age}; ${cookieAttributes(ctx)}`;
}

/** Ends the browser's session at logout. */
export const endedSessionCookie = (ctx: Pick<Ctx, 'config' | 'accessUrl'>): string =>
  `${sessionCookieName(ctx.config)}=; Path=/; Max-Age=0; ${cookieAttributes(ctx)}`;

/** The options whose cookies browsers reject, because people use the server over plain HTTP. As flags, such as `--x`. */
export function rejectedCookieFlags(
  config: Pick<Config, 'hostPrefixCookie' | 'secureAuthCookie'>,
  accessUrl: string,
): string[] {
  if (!accessUrl.startsWith('http:')) return [];
  const secure = ['hostPrefixCookie', 'secureAuthCookie'] as const;
  return secure.filter((name) => config[name]).map((name) => `--${options[name].flag}`);
}
