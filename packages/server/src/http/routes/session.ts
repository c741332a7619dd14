import type { RateLimit } from '../../app/ratelimit.ts';
import { authMethods, validatePassword } from '../../app/user/authmethods.ts';
import { createFirstUser, firstUserExists } from '../../app/user/first.ts';
import { loginWithPassword, logout } from '../../app/user/login.ts';
import { defineHandlers } from '../exchange.ts';

/** Log-in, log-out and the first user. */
export function sessionHandlers(loginLimit: RateLimit) {
  return defineHandlers({
    'GET /users/first': (ctx) => firstUserExists(ctx),
    'POST /users/first': (ctx, { body }) => createFirstUser(ctx, body),
    'POST /users/login': (ctx, { body }) => loginWithPassword(ctx, body, loginLimit),
    'GET /users/authmethods': (ctx) => authMethods(ctx),
    'POST /users/validate-password': (_ctx, { body }) => validatePassword(body),
    'POST /users/logout': (ctx) => logout(ctx),
  });
}
