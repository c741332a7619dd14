/**
 * OpenID Connect: the authorization code flow with PKCE, state and nonce. The provider's metadata is discovered when it
 * is first needed, and again when that failed, so that a provider that is down never keeps the server from starting.
 */
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { AppError, errorText } from '@ropewalk/kit';
import { compile } from '@ropewalk/kit/re2';
import * as client from 'openid-client';
import type { Services } from '../context/context.ts';
import { basicCredentials, boundedFetch } from '../outbound/fetch.ts';
import { claimTexts, mergeClaims, personOf } from './claims.ts';
import type { Claims, Identity, IdentityProvider, ProviderTokens } from './provider.ts';

/** How long metadata is used before it is fetched again, in ms. */
const METADATA_MS = 3_600_000;
/** How long a failed discovery is not repeated, in ms. */
const RETRY_MS = 1_000;
/** How far ahead the clock of a provider may be, in seconds. */
const CLOCK_TOLERANCE = 30;

const OIDC_CALLBACK = '/api/v2/users/oidc/callback';

/**
 * The provider that the options describe.
 *
 * @param closed aborts when the server closes
 * @param timeoutMs the longest wait for an answer of the provider
 */
export function createOidc(services: Services, closed: AbortSignal, timeoutMs?: number): IdentityProvider {
  const { config, clock, log } = services;
  const { oidcIssuerUrl, oidcClientId, dangerousOidcSkipIssuerChecks: anyIssuer } = config;

  try {
    compile(config.oidcGroupRegexFilter);
  } catch (err) {
    throw new AppError('invalid', `Invalid --oidc-group-regex-filter: ${errorText(err)}`);
  }

  const fetch: client.CustomFetch = async (url, options) => {
    const { method, headers, body, signal } = options;
    const either = signal ? AbortSignal.any([signal, closed]) : closed;
    const grant = body instanceof URLSearchParams ? body.get('grant_type') : null;
    const source = grant === 'refresh_token' ? 'TokenSource' : 'Exchange';
    const call = grant === null ? undefined : ({ name: 'oidc-login', source } as const);
    return boundedFetch(url, { method, headers, body: body as never, signal: either, call }, timeoutMs);
  };

  function configure(metadata: client.ServerMetadata, auth: client.ClientAuth, using = fetch): client.Configuration {
    const made = new client.Configuration(metadata, oidcClientId, { [client.clockTolerance]: CLOCK_TOLERANCE }, auth);
    made[client.customFetch] = using;
    client.enableNonRepudiationChecks(made);
    if (!oidcIssuerUrl.startsWith('https:')) client.allowInsecureRequests(made);
    return made;
  }

  let found:
    | { metadata: client.ServerMetadata; auth: client.ClientAuth; configuration: client.Configuration }
    | undefined;
  let foundAt = 0;
  let failed: { at: number; err: AppError } | undefined;
  let searching: Promise<void> | undefined;

  async function discover(): Promise<void> {
    const issuer = oidcIssuerUrl.replace(/\/$/, '');
    try {
      const auth = await clientAuth(config);
      // the address of the document itself: its issuer is then not compared with the configured one
      const address = new URL(anyIssuer ? `${issuer}/.well-known/openid-configuration` : oidcIssuerUrl);
      const discovered = await client.discovery(address, oidcClientId, undefined, auth, {
        [client.customFetch]: fetch,
        execute: address.protocol === 'https:' ? [] : [client.allowInsecureRequests],
      });
      const metadata = discovered.serverMetadata();
      found = { metadata, auth, configuration: configure(metadata, auth) };
      foundAt = clock.monotonic();
      failed = undefined;
    } catch (err) {
      const reason = describe(err);
      log.warn('could not discover the OpenID Connect provider', { issuer: oidcIssuerUrl, err: reason });
      const error = new AppError('unavailable', 'Signing in with the identity provider does not work at the moment.', {
        detail: `The provider at ${issuer} could not be used: ${reason}. Try again later, or ask an administrator.`,
        cause: err,
      });
      failed = { at: clock.monotonic(), err: error };
    }
  }

  async function provider() {
    const now = clock.monotonic();
    const fresh = found && now - foundAt < METADATA_MS;
    if (!fresh && !(failed && now - failed.at < RETRY_MS)) {
      searching ??= discover().finally(() => (searching = undefined));
      await searching;
    }
    // old metadata is better than no metadata
    if (!found) throw failed!.err;
    return found;
  }
  // a provider that answers later is found at the first sign-in
  searching = discover().finally(() => (searching = undefined));

  const redirectUri = () => `${services.accessUrl}${OIDC_CALLBACK}`;

  /** Exchanges the code. Without issuer checks, the issuer is what the token says, and everything else is verified. */
  async function exchange(url: URL, checks: client.AuthorizationCodeGrantChecks) {
    const { metadata, auth, configuration } = await provider();
    if (!anyIssuer) return client.authorizationCodeGrant(configuration, url, checks);
    url.searchParams.delete('iss');
    const lenient = { ...metadata, authorization_response_iss_parameter_supported: false };
    let answer: Response | undefined;
    const recording: client.CustomFetch = async (to, options) => {
      const response = await fetch(to, options);
      if (to === metadata.token_endpoint) answer = response.clone();
      return response;
    };
    try {
      return await client.authorizationCodeGrant(configure(lenient, auth, recording), url, checks);
    } catch (err) {
      const issuer = answer && (await issuerOf(answer));
      if (!answer || !issuer || issuer === metadata.issuer) throw err;
      const again = answer;
      const replaying: client.CustomFetch = async (to, options) =>
        to === metadata.token_endpoint ? again : fetch(to, options);
      return client.authorizationCodeGrant(configure({ ...lenient, issuer }, auth, replaying), url, checks);
    }
  }

  async function userInfo(accessToken: string, subject: string): Promise<Claims> {
    const { metadata, configuration } = await provider();
    if (config.oidcIgnoreUserinfo || !metadata.userinfo_endpoint) return {};
    return client.fetchUserInfo(configuration, accessToken, subject);
  }

  function checkTimes(claims: client.IDToken): void {
    if (claims.iat > clock.now().getTime() / 1000 + CLOCK_TOLERANCE * 2) {
      throw new AppError('unauthenticated', "The identity provider's answer is not valid.", {
        detail: 'The ID token was issued in the future. Compare the clocks of the server and the provider.',
      });
    }
  }

  const tokensOf = (
    answer: Awaited<ReturnType<typeof client.refreshTokenGrant>>,
    previous?: ProviderTokens,
  ): ProviderTokens => {
    const seconds = answer.expiresIn();
    return {
      accessToken: answer.access_token,
      refreshToken: answer.refresh_token ?? previous?.refreshToken ?? '',
      expiresAt: seconds === undefined ? null : new Date(clock.now().getTime() + seconds * 1000),
    };
  };

  return {
    type: 'oidc',
    signUps: { allowed: config.oidcAllowSignups, deniedText: config.oidcSignupsDisabledText },

    async authorizationUrl({ state, nonce, pkceVerifier }) {
      const { configuration } = await provider();
      return client.buildAuthorizationUrl(configuration, {
        ...authParameters(config.oidcAuthUrlParams),
        redirect_uri: redirectUri(),
        scope: config.oidcScopes.join(' '),
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(pkceVerifier),
        code_challenge_method: 'S256',
      });
    },

    async identify(callback, flow): Promise<Identity> {
      const url = new URL(redirectUri());
      for (const [name, value] of callback) if (name !== 'redirect') url.searchParams.append(name, value);
      try {
        const answer = await exchange(url, {
          expectedState: flow.state,
          expectedNonce: flow.nonce,
          pkceCodeVerifier: flow.pkceVerifier,
          idTokenExpected: true,
        });
        const idToken = answer.claims()!;
        checkTimes(idToken);
        const claims = mergeClaims({ ...idToken }, await userInfo(answer.access_token, idToken.sub));
        checkAllowedGroups(claims, config);
        return {
          provider: 'oidc',
          subject: `${idToken.iss}||${idToken.sub}`,
          ...personOf(claims, config),
          claims,
          tokens: tokensOf(answer),
        };
      } catch (err) {
        throw signInError(err);
      }
    },

    async refresh(tokens, subject) {
      try {
        const { configuration } = await provider();
        const answer = await client.refreshTokenGrant(configuration, tokens.refreshToken);
        const sub = subject.slice(subject.indexOf('||') + 2);
        const idToken = answer.claims();
        if (idToken && idToken.sub !== sub) {
          throw new AppError('unauthenticated', 'The identity provider sent the tokens of another account.');
        }
        const info = await userInfo(answer.access_token, sub);
        const claims = idToken ? mergeClaims({ ...idToken }, info) : info;
        return {
          tokens: tokensOf(answer, tokens),
          ...(Object.keys(claims).length > 0 ? { claims } : {}),
        };
      } catch (err) {
        throw signInError(err);
      }
    },
  };
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

/** How the server authenticates itself: a key with its certificate, a secret, or not at all. */
async function clientAuth(config: Services['config']): Promise<client.ClientAuth> {
  const { oidcClientKeyFile, oidcClientCertFile, oidcClientSecret } = config;
  if (oidcClientKeyFile !== '') {
    const key = createPrivateKey(await readFile(oidcClientKeyFile));
    const certificate = oidcClientCertFile === '' ? undefined : new X509Certificate(await readFile(oidcClientCertFile));
    const algorithm =
      key.asymmetricKeyType === 'ec'
        ? { name: 'ECDSA', namedCurve: 'P-256' }
        : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const bytes = key.export({ type: 'pkcs8', format: 'der' });
    const signing = await webcrypto.subtle.importKey('pkcs8', new Uint8Array(bytes), algorithm, false, ['sign']);
    const thumbprint = certificate && Buffer.from(certificate.fingerprint.replaceAll(':', ''), 'hex');
    return (as, ...rest) =>
      client.PrivateKeyJwt(signing as never, {
        [client.modifyAssertion](header, payload) {
          if (thumbprint) header['x5t'] = thumbprint.toString('base64url');
          if (as.token_endpoint) payload['aud'] = as.token_endpoint;
        },
      })(as, ...rest);
  }
  if (oidcClientSecret === '') return client.None();
  return (as, self, body, headers) => {
    if (as.token_endpoint_auth_methods_supported?.includes('client_secret_post')) {
      client.ClientSecretPost(oidcClientSecret)(as, self, body, headers);
    } else headers.set('authorization', basicCredentials(self.client_id, oidcClientSecret));
  };
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

/** The texts of an error and its causes. They contain no tokens. */
function describe(err: unknown): string {
  const texts: string[] = [];
  for (let at = err; at instanceof Error && texts.length < 4; at = at.cause) texts.push(at.message);
  return texts.length > 0 ? texts.join(': ') : errorText(err);
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
  return new AppError('unavailable', 'The identity provider does not answer as it should.', {
    detail: `${describe(err)}. Try again later, or ask an administrator.`,
    cause: err,
  });
}
