import type { RateLimit } from '../../app/ratelimit.ts';
import { authMethods, validatePassword } from '../../app/user/authmethods.ts';
import { createFirstUser, firstUserExists } from '../../app/user/first.ts';
import { loginWithPassword, logout } from '../../app/user/login.ts';
import { SESSION_COOKIE } from '../auth.ts';
import { defineHandlers } from '../exchange.ts';

/** Log-in, log-out and the first user. */
export function sessionHandlers(loginLimit: RateLimit) {
  return defineHandlers({
    'GET /users/first': (ctx) => firstUserExists(ctx),
    'POST /users/first': (ctx, { body }) => createFirstUser(ctx, body),
    'POST /users/login': async (ctx, { body, http }) => {
      const answer = await loginWithPassword(ctx, body, loginLimit);
      // for browsers, whose scripts must not be able to read it; programs take the token from the body
      const secure = ctx.config.secureAuthCookie || ctx.accessUrl.startsWith('https:');
      // browsers take None with Secure only
      const sameSite = ctx.config.samesiteAuthCookie === 'none' && secure ? 'None' : 'Lax';
      const age = Math.floor(ctx.config.sessionDuration / 1_000);
      http.reply.header(
        'set-cookie',
        `${SESSION_COOKIE}=${answer.session_token}; Path=/; Max-Age=${age}; HttpOnly; SameSite=${sameSite}${secure ? '; Secure' : ''}`,
      );
      return answer;
    },
    'GET /users/authmethods': (ctx) => authMethods(ctx),
    'POST /users/validate-password': (_ctx, { body }) => validatePassword(body),
    'POST /users/logout': (ctx, { http }) => {
      http.reply.header('set-cookie', `${SESSION_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax`);
      return logout(ctx);
    },
  });
}
