import type { AuthMethods, ValidateUserPasswordRequest, ValidateUserPasswordResponse } from '@ropewalk/contract';
import type { Ctx } from '../context/context.ts';
import { githubEnabled, oidcEnabled } from '../context/login-types.ts';
import { passwordWeakness } from '../user/password.ts';
import { canResetPassword } from './passcode.ts';

/** How people may sign in on this server. */
export function authMethods(ctx: Ctx): AuthMethods {
  const { config } = ctx;
  return {
    ...(config.termsOfServiceUrl ? { terms_of_service_url: config.termsOfServiceUrl } : {}),
    password: { enabled: !config.disablePasswordAuth },
    password_reset: { enabled: canResetPassword(ctx) },
    github: { enabled: githubEnabled(config), default_provider_configured: false },
    oidc: { enabled: oidcEnabled(config), signInText: config.oidcSignInText, iconUrl: config.oidcIconUrl },
  };
}

/** Whether the server would accept a password, so that a form can validate it while a person types. */
export function validatePassword({ password }: ValidateUserPasswordRequest): ValidateUserPasswordResponse {
  const details = passwordWeakness(password);
  return { valid: details === undefined, details: details ?? '' };
}
