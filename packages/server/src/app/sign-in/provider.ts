import type { ProviderType } from '../context/login-types.ts';

/** What sign-in needs of an identity provider. Each provider has a separate file that implements this. */
export interface IdentityProvider {
  type: ProviderType;
  /** Where the browser goes to sign in. */
  authorizationUrl(flow: FlowSecrets): Promise<URL>;
  /**
   * Verifies what the browser brought back, against the secrets of the flow.
   * @throws AppError `unauthenticated` if it proves nothing, `forbidden` if the provider's account may not sign in,
   *   `unavailable` if the provider does not answer
   */
  identify(callback: URLSearchParams, flow: FlowSecrets): Promise<Identity>;
  /**
   * Exchanges the refresh token.
   * @throws AppError `unauthenticated` if the provider revoked it, `unavailable` if the provider does not answer
   */
  refresh(tokens: ProviderTokens, subject: string): Promise<{ tokens: ProviderTokens; claims?: Claims }>;
  /** Whether a page of this server asks again and again until the person has typed a code at the provider. */
  device?: boolean;
  signUps: { allowed: boolean; deniedText: string };
}

export type Providers = Partial<Record<ProviderType, IdentityProvider>>;

/** Random values of one sign-in. The browser keeps them, encrypted, until it comes back from the provider. */
export interface FlowSecrets {
  state: string;
  nonce: string;
  pkceVerifier: string;
}

export type Claims = Record<string, unknown>;

export interface ProviderTokens {
  accessToken: string;
  /** Empty if the provider gave none. */
  refreshToken: string;
  expiresAt: Date | null;
}

/** A verified account of a provider. */
export interface Identity {
  provider: ProviderType;
  /** Identifies the account at the provider for ever. */
  subject: string;
  email: string;
  /** A valid user name, made of the provider's claims. Another account may have it. */
  username: string;
  name: string;
  avatarUrl: string;
  claims: Claims;
  tokens: ProviderTokens;
}
