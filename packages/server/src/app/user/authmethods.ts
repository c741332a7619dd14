import type { AuthMethods, ValidateUserPasswordRequest, ValidateUserPasswordResponse } from '@platform/contract';
import type { Ctx } from '../context.ts';
import { passwordWeakness } from '../password.ts';
import type { ProviderType } from '../sign-in/provider.ts';
import { canResetPassword } from './passcode.ts';

export const oidcEnabled = (config: Ctx['config']): boolean =>
  config.oidcIssuerUrl !== '' && config.oidcClientId !== '';

export const githubEnabled = (config: Ctx['config']): boolean => config.oauth2GithubClientId !== '';

/** The providers that the options configure. */
export const enabledProviders = (config: Ctx['config']): ProviderType[] => [
  ...(oidcEnabled(config) ? (['oidc'] as const) : []),
  ...(githubEnabled(config) ? (['github'] as const) : []),
];

/** The login types that an account may change to on this server. */
export const loginTypes = (config: Ctx['config']) => ['password', 'none', ...enabledProviders(config)] as const;

/**
 * The login types of a new account. Upstream's server also creates accounts for GitHub before its sign-in is configured, so
 * that an administrator can prepare them.
 */
export const newLoginTypes = (config: Ctx['config']) => [...new Set([...loginTypes(config), 'github' as const])];

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
