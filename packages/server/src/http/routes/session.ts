import { authMethods, validatePassword } from '../../app/sign-in/auth-methods.ts';
import { loginWithPassword, logout } from '../../app/sign-in/login.ts';
import { changePasswordWithPasscode, requestPasscode } from '../../app/sign-in/passcode.ts';
import {
  DEVICE_COOKIE,
  DEVICE_LIFETIME_MS,
  type KnownDevices,
  type SignInLimit,
} from '../../app/sign-in/sign-in-limit.ts';
import { createFirstUser, firstUserExists } from '../../app/user/first.ts';
import { cookieValue } from '../cookies.ts';
import { defineHandlers } from '../exchange.ts';
import { cookieAttributes, endedSessionCookie, sessionCookie } from '../session-cookie.ts';

/** Sign-in, sign-out and the first user. */
export function sessionHandlers({
  limit,
  passcodeLimit,
  devices,
}: {
  limit: SignInLimit;
  /** Of requests for codes and uses of them: they delay no sign-in. */
  passcodeLimit: SignInLimit;
  devices: KnownDevices;
}) {
  return defineHandlers({
    'GET /users/first': (ctx) => firstUserExists(ctx),
    'POST /users/first': (ctx, { body }) => createFirstUser(ctx, body),
    'POST /users/login': async (ctx, { body, http }) => {
      const shown = cookieValue(http.request.headers.cookie, DEVICE_COOKIE);
      const { proof, ...answer } = await loginWithPassword(ctx, body, { limit, devices, proof: shown });
      http.reply.header('set-cookie', [
        sessionCookie(ctx, answer.session_token),
        `${DEVICE_COOKIE}=${proof}; Path=/api/v2/users/login; Max-Age=${DEVICE_LIFETIME_MS / 1_000}; ${cookieAttributes(ctx)}`,
      ]);
      return answer;
    },
    'GET /users/authmethods': (ctx) => authMethods(ctx),
    'POST /users/validate-password': (_ctx, { body }) => validatePassword(body),
    'POST /users/otp/request': (ctx, { body }) => requestPasscode(ctx, body, passcodeLimit),
    'POST /users/otp/change-password': (ctx, { body }) => changePasswordWithPasscode(ctx, body, passcodeLimit),
    'POST /users/logout': (ctx, { http }) => {
      http.reply.header('set-cookie', endedSessionCookie(ctx));
      return logout(ctx);
    },
  });
}
