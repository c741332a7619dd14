/** How people may sign in, by the server's options. */
import type { Services } from './context.ts';

export type ProviderType = 'github' | 'oidc';

export const oidcEnabled = (config: Services['config']): boolean =>
  config.oidcIssuerUrl !== '' && config.oidcClientId !== '';

export const githubEnabled = (config: Services['config']): boolean => config.oauth2GithubClientId !== '';

/** The providers that the options configure. */
export const enabledProviders = (config: Services['config']): ProviderType[] => [
  ...(oidcEnabled(config) ? (['oidc'] as const) : []),
  ...(githubEnabled(config) ? (['github'] as const) : []),
];

/** The login types that an account may change to on this server. */
export const loginTypes = (config: Services['config']) => ['password', 'none', ...enabledProviders(config)] as const;

/**
 * The login types of a new account. Upstream's server also creates accounts for GitHub before its sign-in is configured, so
 * that an administrator can prepare them.
 */
export const newLoginTypes = (config: Services['config']) => [...new Set([...loginTypes(config), 'github' as const])];
