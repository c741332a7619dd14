import type { AuthMethods, User } from '@ropewalk/contract';

export type Provider = 'oidc' | 'github';

/** What people call a way to sign in on this server. */
export function signInName(type: User['login_type'], methods: AuthMethods | undefined): string {
  if (type === 'oidc') return methods?.oidc.signInText || 'OpenID Connect';
  return { password: 'Password', github: 'GitHub', none: 'API tokens only', token: 'API tokens only', '': '' }[type];
}

/** The server's route that goes on to the provider and comes back with a session. */
export const callbackOf = (provider: Provider): string =>
  provider === 'oidc' ? '/api/v2/users/oidc/callback' : '/api/v2/users/oauth2/github/callback';
