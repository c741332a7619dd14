/**
 * OpenID Connect: the authorization code flow with PKCE, state and nonce. The provider's metadata is discovered when it
 * is first needed, and again when that failed, so that a provider that is down never keeps the server from starting.
 */
import { AppError, errorText } from '@ropewalk/kit';
import { compile } from '@ropewalk/kit/re2';
import * as client from 'openid-client';
import type { Services } from '../context/context.ts';
import { claimTexts, mergeClaims, personOf } from './claims.ts';
import { CLOCK_TOLERANCE, describe, OidcDiscovery } from './oidc-discovery.ts';
import type { Claims, FlowSecrets, Identity, IdentityProvider, ProviderTokens } from './provider.ts';

const OIDC_CALLBACK = '/api/v2/users/oidc/callback';

/**
 * The provider that the options describe.
 *
 * @param closed aborts when the server closes
 * @param timeoutMs the longest wait for an answer of the provider
 */
export function createOidc(services: Services, closed: AbortSignal, timeoutMs?: number): IdentityProvider {
  try {
    compile(services.config.oidcGroupRegexFilter);
  } catch (err) {
    throw new AppError('invalid', `Invalid --oidc-group-regex-filter: ${errorText(err)}`);
  }
  const { oidcRedirectUrl } = services.config;
  if (oidcRedirectUrl !== '' && !/^https?:$/.test(new URL(oidcRedirectUrl).protocol))
    throw new AppError(
      'invalid',
      `Invalid --oidc-redirect-url ${JSON.stringify(oidcRedirectUrl)}: start it with https:// or http://.`,
    );
  return new OidcProvider(services, new OidcDiscovery(services, closed, timeoutMs));
}

class OidcProvider implements IdentityProvider {
  readonly type = 'oidc';
  readonly signUps: IdentityProvider['signUps'];
  readonly #services: Services;
  readonly #discovery: OidcDiscovery;

  constructor(services: Services, discovery: OidcDiscovery) {
    const { config } = services;
    this.signUps = { allowed: config.oidcAllowSignups, deniedText: config.oidcSignupsDisabledText };
    this.#services = services;
    this.#discovery = discovery;
  }

  async authorizationUrl({ state, nonce, pkceVerifier }: FlowSecrets): Promise<URL> {
    const { config } = this.#services;
    const { configuration } = await this.#discovery.provider();
    return client.buildAuthorizationUrl(configuration, {
      ...authParameters(config.oidcAuthUrlParams),
      redirect_uri: this.#redirectUri(),
      scope: config.oidcScopes.join(' '),
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(pkceVerifier),
      code_challenge_method: 'S256',
    });
  }

  async identify(callback: URLSearchParams, flow: FlowSecrets): Promise<Identity> {
    const { config } = this.#services;
    const url = new URL(this.#redirectUri());
    for (const [name, value] of callback) if (name !== 'redirect') url.searchParams.append(name, value);
    try {
      const answer = await this.#exchange(url, {
        expectedState: flow.state,
        expectedNonce: flow.nonce,
        pkceCodeVerifier: flow.pkceVerifier,
        idTokenExpected: true,
      });
      const idToken = answer.claims()!;
      this.#checkTimes(idToken);
      const claims = mergeClaims({ ...idToken }, await this.#userInfo(answer.access_token, idToken.sub));
      checkAllowedGroups(claims, config);
      return {
        provider: 'oidc',
        subject: `${idToken.iss}||${idToken.sub}`,
        ...personOf(claims, config),
        claims,
        tokens: this.#tokensOf(answer),
      };
    } catch (err) {
      throw signInError(err);
    }
  }

  async refresh(tokens: ProviderTokens, subject: string): Promise<{ tokens: ProviderTokens; claims?: Claims }> {
    try {
      const { configuration } = await this.#discovery.provider();
      const answer = await client.refreshTokenGrant(configuration, tokens.refreshToken);
      const sub = subject.slice(subject.indexOf('||') + 2);
      const idToken = answer.claims();
      if (idToken && idToken.sub !== sub) {
        throw new AppError('unauthenticated', 'The identity provider sent the tokens of another account.');
      }
      const info = await this.#userInfo(answer.access_token, sub);
      const claims = idToken ? mergeClaims({ ...idToken }, info) : info;
      return {
        tokens: this.#tokensOf(answer, tokens),
        ...(Object.keys(claims).length > 0 ? { claims } : {}),
      };
    } catch (err) {
      throw signInError(err);
    }
  }

  #redirectUri(): string {
    const { config, accessUrl } = this.#services;
    // an access URL may have a path, which a reverse proxy removes
    return config.oidcRedirectUrl
      ? new URL(OIDC_CALLBACK, config.oidcRedirectUrl).href
      : `${accessUrl}${OIDC_CALLBACK}`;
  }

  /** Exchanges the code. Without issuer checks, the issuer is what the token says, and everything else is verified. */
  async #exchange(url: URL, checks: client.AuthorizationCodeGrantChecks) {
    const discovery = this.#discovery;
    const { metadata, auth, configuration } = await discovery.provider();
    if (!this.#services.config.dangerousOidcSkipIssuerChecks) {
      return client.authorizationCodeGrant(configuration, url, checks);
    }
    url.searchParams.delete('iss');
    const lenient = { ...metadata, authorization_response_iss_parameter_supported: false };
    let answer: Response | undefined;
    const recording: client.CustomFetch = async (to, options) => {
      const response = await discovery.fetch(to, options);
      if (to === metadata.token_endpoint) answer = response.clone();
      return response;
    };
    try {
      return await client.authorizationCodeGrant(discovery.configure(lenient, auth, recording), url, checks);
    } catch (err) {
      const issuer = answer && (await issuerOf(answer));
      if (!answer || !issuer || issuer === metadata.issuer) throw err;
      const again = answer;
      const replaying: client.CustomFetch = async (to, options) =>
        to === metadata.token_endpoint ? again : discovery.fetch(to, options);
      return client.authorizationCodeGrant(discovery.configure({ ...lenient, issuer }, auth, replaying), url, checks);
    }
  }

  async #userInfo(accessToken: string, subject: string): Promise<Claims> {
    const { metadata, configuration } = await this.#discovery.provider();
    if (this.#services.config.oidcIgnoreUserinfo || !metadata.userinfo_endpoint) return {};
    return client.fetchUserInfo(configuration, accessToken, subject);
  }

  #checkTimes(claims: client.IDToken): void {
    if (claims.iat > this.#services.clock.now().getTime() / 1000 + CLOCK_TOLERANCE * 2) {
      throw new AppError('unauthenticated', "The identity provider's answer is not valid.", {
        detail: 'The ID token was issued in the future. Compare the clocks of the server and the provider.',
      });
    }
  }

  #tokensOf(answer: Awaited<ReturnType<typeof client.refreshTokenGrant>>, previous?: ProviderTokens): ProviderTokens {
    const seconds = answer.expiresIn();
    return {
      accessToken: answer.access_token,
      refreshToken: answer.refresh_token ?? previous?.refreshToken ?? '',
      expiresAt: seconds === undefined ? null : new Date(this.#services.clock.now().getTime() + seconds * 1000),
    };
  }
}

/** Rejects people outside of the groups that may sign in. */
function checkAllowedGroups(claims: Claims, config: Services['config']): void {
  const { oidcAllowedGroups: allowed, oidcGroupField: field } = config;
  if (allowed.length === 0 || field === '') return;
  if (claimTexts(claims, field).some((group) => allowed.includes(group))) return;
  throw new AppError('forbidden', "You aren't a member of a group that may sign in.", {
    detail: 'Ask an administrator for access.',
  });
}

function authParameters(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) =>
      (Array.isArray(each) ? each.slice(0, 1) : [each]).map((one) => [name, String(one)]),
    ),
  );
}

/** The issuer in the ID token of a token endpoint's answer. Nothing is verified. */
async function issuerOf(answer: Response): Promise<string | undefined> {
  try {
    const { id_token } = (await answer.clone().json()) as { id_token: string };
    const { iss } = JSON.parse(Buffer.from(id_token.split('.')[1]!, 'base64url').toString('utf8')) as { iss: unknown };
    return typeof iss === 'string' ? iss : undefined;
  } catch {
    return undefined;
  }
}

function signInError(err: unknown): AppError {
  if (err instanceof AppError) return err;
  if (err instanceof client.AuthorizationResponseError || err instanceof client.ResponseBodyError) {
    const said = (err.error_description ?? err.error).slice(0, 500);
    const temporary = err instanceof client.ResponseBodyError && err.status >= 500;
    return new AppError(temporary ? 'unavailable' : 'unauthenticated', 'The identity provider rejected the sign-in.', {
      detail: said,
      cause: err,
    });
  }
  const cause = err instanceof Error ? err.cause : undefined;
  const bounded = cause instanceof AppError ? cause : undefined;
  const code = (err as { code?: string }).code;
  // what is wrong with an answer that came, by the library's codes
  const answered = code?.startsWith('OAUTH_') && code !== 'OAUTH_TIMEOUT' && code !== 'OAUTH_ABORT';
  const status = (cause as { status?: number } | undefined)?.status;
  if (answered && !bounded && !(status !== undefined && status >= 500)) {
    return new AppError('unauthenticated', "The identity provider's answer is not valid.", {
      detail: `${describe(err)}. Try to sign in again.`,
      cause: err,
    });
  }
  return new AppError('unavailable', 'The identity provider did not answer as expected.', {
    detail: `${describe(err)}. Try again later, or ask an administrator.`,
    cause: err,
  });
}
