/**
 * The requests of OAuth 2.0 to external auth providers, with the deviations of each type. Answers are limited in time
 * and size. Nothing here reads or writes the database.
 */
import { createHash } from 'node:crypto';
import type { ExternalAuthAppInstallation, ExternalAuthDevice, ExternalAuthUser } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import type { ExternalAuthProvider } from '../../config/external-auth.ts';
import type { Services } from '../context/context.ts';
import { type BoundedRequest, basicCredentials, boundedFetch } from '../outbound/fetch.ts';
import type { CallSource } from '../outbound/provider-calls.ts';
import type { FlowSecrets } from '../sign-in/provider.ts';
import { imageAddress } from '../values/image-address.ts';

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const CLIENT_ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
/** Azure DevOps, as Entra ID names it. */
const AZURE_DEVOPS = '499b84ac-1321-427f-aa17-267ca6975798';
const MAX_TOKEN_CHARACTERS = 16_384;
const MAX_EXTRA_CHARACTERS = 65_536;

/** What a provider gives for an account. */
export interface LinkTokens {
  access_token: string;
  /** Empty if the provider gave none. */
  refresh_token: string;
  /** Null if the provider did not say. */
  expires_at: Date | null;
  /** The fields of the answer that the configuration names. */
  extra: Record<string, unknown>;
}

type Values = Record<string, string>;
type Answer = Record<string, unknown>;

export const callbackUrl = ({ accessUrl }: Pick<Services, 'accessUrl'>, provider: ExternalAuthProvider) =>
  `${accessUrl}/external-auth/${provider.id}/callback`;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const object = (value: unknown): Answer => (typeof value === 'object' && value !== null ? (value as Answer) : {});

const unavailable = (provider: ExternalAuthProvider, detail: string, cause?: unknown) =>
  new AppError('unavailable', `${provider.display_name} did not answer as expected.`, {
    detail: `${detail}. Try again later.`,
    cause,
  });

/** The provider does not accept what was sent. A later try has the same result. */
const rejected = (provider: ExternalAuthProvider, detail: string) =>
  new AppError('invalid', `${provider.display_name} rejected the request.`, { detail: detail.slice(0, 1_000) });

async function request(
  provider: ExternalAuthProvider,
  source: CallSource,
  url: string,
  options: BoundedRequest,
): Promise<Response> {
  try {
    const call = { name: provider.id, source };
    return await boundedFetch(url, { ...options, call, headers: { 'user-agent': 'coder', ...options.headers } });
  } catch (err) {
    throw unavailable(provider, `${new URL(url).host}: ${errorText(err)}`, err);
  }
}

/** Providers answer in JSON or, as GitHub's older endpoints, as a form. */
async function read(response: Response): Promise<Answer> {
  const body = await response.text();
  try {
    return object(JSON.parse(body));
  } catch {
    return response.headers.get('content-type')?.includes('form-urlencoded')
      ? Object.fromEntries(new URLSearchParams(body))
      : {};
  }
}

const withParameters = (url: string, values: Values): string => {
  const full = new URL(url);
  for (const [name, value] of Object.entries(values)) full.searchParams.set(name, value);
  return full.href;
};

/** Where a person allows this server to use the account. */
export function authorizationUrl(
  services: Pick<Services, 'accessUrl'>,
  provider: ExternalAuthProvider,
  flow: FlowSecrets,
): string {
  return withParameters(provider.auth_url, {
    client_id: provider.client_id,
    response_type: provider.type === 'azure-devops' ? 'Assertion' : 'code',
    redirect_uri: callbackUrl(services, provider),
    state: flow.state,
    ...(provider.scopes.length > 0 ? { scope: provider.scopes.join(' ') } : {}),
    ...(provider.type === 'azure-devops-entra' ? { resource: AZURE_DEVOPS } : {}),
    ...(provider.pkce
      ? {
          code_challenge: createHash('sha256').update(flow.pkceVerifier).digest('base64url'),
          code_challenge_method: 'S256',
        }
      : {}),
  });
}

/** Asks the token endpoint. @throws AppError `invalid` if the provider rejects the values */
async function askForTokens(
  services: Pick<Services, 'clock'>,
  provider: ExternalAuthProvider,
  source: CallSource,
  values: Values,
): Promise<LinkTokens> {
  const send = (credentials: Values, headers: Values) =>
    request(provider, source, provider.token_url, {
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded', ...headers },
      body: new URLSearchParams({ ...credentials, ...values }).toString(),
    });
  const { client_id, client_secret } = provider;
  const inBody: Values =
    provider.type === 'azure-devops'
      ? { client_assertion_type: CLIENT_ASSERTION, client_assertion: client_secret }
      : { client_id, ...(client_secret ? { client_secret } : {}) };
  const bearer: Values = provider.type === 'jfrog' ? { authorization: `Bearer ${client_secret}` } : {};
  let response = await send(inBody, bearer);
  let answer = await read(response);
  if (response.status === 401 && answer['error'] === 'invalid_client' && client_secret) {
    // some providers take the client's credentials in the header only
    response = await send({}, { authorization: basicCredentials(client_id, client_secret) });
    answer = await read(response);
  }
  const token = text(answer['access_token']) || text(object(answer['authed_user'])['access_token']);
  if (!response.ok || token === '') {
    const error = text(answer['error']);
    const isAnswer = response.status < 500 && response.status !== 429;
    if (isAnswer && (response.ok || response.status === 400 || response.status === 401 || error !== '')) {
      throw rejected(provider, text(answer['error_description']) || error || 'It gave no token.');
    }
    throw unavailable(provider, `The token endpoint answered with status ${response.status}`);
  }
  const seconds = Number(answer['expires_in'] ?? 0);
  const extra = Object.fromEntries(
    provider.extra_token_keys.filter((key) => answer[key] !== undefined).map((key) => [key, answer[key]]),
  );
  const refresh = text(answer['refresh_token']);
  if (
    token.length > MAX_TOKEN_CHARACTERS ||
    refresh.length > MAX_TOKEN_CHARACTERS ||
    JSON.stringify(extra).length > MAX_EXTRA_CHARACTERS ||
    /[\0\r\n]/.test(token + refresh)
  ) {
    throw unavailable(provider, 'Its token is too long or malformed');
  }
  return {
    access_token: token,
    refresh_token: refresh,
    expires_at: seconds > 0 && seconds < 1e10 ? new Date(services.clock.now().getTime() + seconds * 1_000) : null,
    extra,
  };
}

/** Exchanges the code that the browser brought back. */
export function exchangeCode(
  services: Services,
  provider: ExternalAuthProvider,
  code: string,
  flow: FlowSecrets,
): Promise<LinkTokens> {
  return askForTokens(services, provider, 'Exchange', {
    ...(provider.type === 'azure-devops'
      ? { grant_type: JWT_BEARER, assertion: code }
      : { grant_type: 'authorization_code', code }),
    redirect_uri: callbackUrl(services, provider),
    ...(provider.pkce ? { code_verifier: flow.pkceVerifier } : {}),
    ...(provider.type === 'azure-devops-entra' ? { resource: AZURE_DEVOPS } : {}),
  });
}

/** Exchanges a refresh token. A provider that gives no new refresh token keeps the old one. */
export async function refreshTokens(
  services: Services,
  provider: ExternalAuthProvider,
  refreshToken: string,
): Promise<LinkTokens> {
  const azure = provider.type === 'azure-devops';
  const tokens = await askForTokens(services, provider, 'TokenSource', {
    grant_type: 'refresh_token',
    [azure ? 'assertion' : 'refresh_token']: refreshToken,
    ...(azure ? { redirect_uri: callbackUrl(services, provider) } : {}),
    // without them Entra ID falls back to its default scopes
    ...(provider.type === 'azure-devops-entra'
      ? { resource: AZURE_DEVOPS, ...(provider.scopes.length > 0 ? { scope: provider.scopes.join(' ') } : {}) }
      : {}),
  });
  return { ...tokens, refresh_token: tokens.refresh_token || refreshToken };
}

/** Asks the provider for a code that the person types there. */
export async function startDevice(provider: ExternalAuthProvider): Promise<ExternalAuthDevice> {
  const response = await request(provider, 'AuthorizeDevice', provider.device_code_url, {
    method: 'POST',
    headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      client_id: provider.client_id,
      ...(provider.scopes.length > 0 ? { scope: provider.scopes.join(' ') } : {}),
    }).toString(),
  });
  const answer = await read(response);
  const [device_code, user_code] = [text(answer['device_code']), text(answer['user_code'])];
  const verification_uri = text(answer['verification_uri']) || text(answer['verification_url']);
  if (!response.ok || device_code === '' || user_code === '' || !/^https?:\/\/[^/]/i.test(verification_uri)) {
    const reason = text(answer['error_description']) || text(answer['error']);
    throw unavailable(provider, reason || `It gave no code, and answered with status ${response.status}`);
  }
  return {
    device_code,
    user_code,
    verification_uri,
    expires_in: Math.trunc(Number(answer['expires_in'])) || 900,
    interval: Math.trunc(Number(answer['interval'])) || 5,
  };
}

/** Exchanges a device code. @throws AppError `invalid` whose detail is the error, such as `authorization_pending` */
export async function exchangeDeviceCode(
  services: Services,
  provider: ExternalAuthProvider,
  code: string,
): Promise<LinkTokens> {
  return askForTokens(services, provider, 'Exchange', { grant_type: DEVICE_GRANT, device_code: code });
}

const bearerGet = (provider: ExternalAuthProvider, source: CallSource, url: string, token: string) =>
  request(provider, source, url, { headers: { accept: 'application/json', authorization: `Bearer ${token}` } });

function toUser(value: unknown): ExternalAuthUser {
  const user = object(value);
  return {
    id: Number.isSafeInteger(user['id']) ? (user['id'] as number) : 0,
    login: text(user['login']),
    name: text(user['name']),
    avatar_url: imageAddress(text(user['avatar_url'])),
    profile_url: text(user['html_url']),
  };
}

/** Asks the provider whether a token is valid. GitHub says whose it is. */
export async function validateToken(
  provider: ExternalAuthProvider,
  token: string,
): Promise<{ valid: boolean; user?: ExternalAuthUser }> {
  if (provider.validate_url === '') return { valid: true };
  const response = await bearerGet(provider, 'ValidateToken', provider.validate_url, token);
  switch (response.status) {
    case 200:
      return { valid: true, ...(provider.type === 'github' ? { user: toUser(await read(response)) } : {}) };
    case 401:
      return { valid: false };
    case 403:
      // GitHub answers like this to requests beyond its limit, whatever the token
      return { valid: response.headers.get('x-ratelimit-remaining') === '0' || response.headers.has('retry-after') };
    case 429:
      return { valid: true };
    default:
      throw unavailable(provider, `The validation answered with status ${response.status}`);
  }
}

/** Where the person has installed the provider's app. Undefined if the provider has none. */
export async function appInstallations(
  provider: ExternalAuthProvider,
  token: string,
): Promise<ExternalAuthAppInstallation[] | undefined> {
  if (provider.app_installations_url === '' || provider.type !== 'github') return undefined;
  const response = await bearerGet(provider, 'AppInstallations', provider.app_installations_url, token);
  // an OAuth app has no installations, and the route is closed to it
  if (!response.ok) return undefined;
  const { installations } = await read(response);
  return (Array.isArray(installations) ? installations : []).map(object).map((each) => ({
    id: Number.isSafeInteger(each['id']) ? (each['id'] as number) : 0,
    configure_url: text(each['html_url']),
    account: toUser(each['account']),
  }));
}

/** Asks the provider to end the tokens. Returns why it did not. Undefined: it did. */
export async function revokeTokens(
  provider: ExternalAuthProvider,
  link: Pick<LinkTokens, 'access_token' | 'refresh_token'>,
): Promise<string | undefined> {
  if (provider.revoke_url === '') return 'The provider has no revoke URL.';
  const { client_id, client_secret } = provider;
  const isGithub = provider.type === 'github';
  try {
    const response = await request(
      provider,
      'RevokeToken',
      provider.revoke_url,
      isGithub
        ? {
            method: 'DELETE',
            headers: {
              accept: 'application/vnd.github+json',
              authorization: basicCredentials(client_id, client_secret),
              'content-type': 'application/json',
            },
            body: JSON.stringify({ access_token: link.access_token }),
          }
        : {
            method: 'POST',
            headers: {
              authorization: `Bearer ${link.access_token}`,
              'content-type': 'application/x-www-form-urlencoded',
            },
            body: new URLSearchParams({
              client_id,
              client_secret,
              token: link.refresh_token || link.access_token,
              token_type_hint: link.refresh_token ? 'refresh_token' : 'access_token',
            }).toString(),
          },
    );
    return response.status === (isGithub ? 204 : 200) ? undefined : `It answered with status ${response.status}.`;
  } catch (err) {
    return errorText(err);
  }
}
