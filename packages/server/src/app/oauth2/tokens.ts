// Codes and refresh tokens become access tokens, which are API keys of the person with the granted scopes. A code and a
// refresh token work once. A second use means that two parties have it, so the whole family of tokens ends.

import { createHash } from 'node:crypto';
import { systemTask, verifiedSignIn } from '../../authz/proofs.ts';
import { tokenScope } from '../../authz/scope.ts';
import type { Tx } from '../../db/connect.ts';
import type { OAuth2AppRow } from '../../db/queries/oauth2-apps.ts';
import {
  deleteOAuth2Code,
  deleteOAuth2Family,
  insertOAuth2Token,
  lockOAuth2Code,
  lockOAuth2Token,
  type OAuth2CodeRow,
  type OAuth2TokenRow,
  oldOAuth2Families,
  useOAuth2Code,
  useOAuth2Token,
} from '../../db/queries/oauth2-tokens.ts';
import { userById } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { issueToken } from '../context/session.ts';
import { ownResource } from '../values/audience.ts';
import { sameBytes } from '../values/token.ts';
import { publishRevoked } from './apps.ts';
import { PKCE_TEXT } from './authorize.ts';
import { findClient, type OAuth2Client } from './clients.ts';
import { OAuth2Failure } from './failure.ts';
import { type Parameters, readParameters } from './parameters.ts';
import { narrowedScopes } from './scopes.ts';
import { isSecret, newSecret, splitSecret } from './secret-text.ts';

/** The maximum number of families of one app and person: browsers and machines. The oldest ends. */
const MAX_FAMILIES = 20;

const NAMES = [
  'client_id',
  'client_secret',
  'code',
  'code_verifier',
  'grant_type',
  'redirect_uri',
  'refresh_token',
  'resource',
  'scope',
] as const;

export interface TokenAnswer {
  access_token: string;
  token_type: 'Bearer';
  expires_in: number;
  refresh_token: string;
  scope: string;
  /** Not of the RFC. Upstream's clients read it. */
  expiry: string;
}

/** The server acts, for an app that has proven itself. */
export const clientContext = (ctx: Ctx): Ctx => {
  const { ip, userAgent, requestId } = ctx;
  return { ...systemContext(ctx, 'oauth2', ctx.signal), ip, userAgent, requestId };
};

/** Answers a request for tokens. @throws OAuth2Failure */
export async function exchangeToken(
  given: Ctx,
  values: URLSearchParams,
  header: string | undefined,
): Promise<TokenAnswer> {
  const ctx = clientContext(given);
  const form = readParameters(values, NAMES);
  const type = form('grant_type');
  if (type === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: grant_type');
  if (type !== 'authorization_code' && type !== 'refresh_token')
    throw new OAuth2Failure('unsupported_grant_type', 'Use authorization_code or refresh_token.');
  const client = await findClient(ctx, form, header);
  const grant = type === 'authorization_code' ? codeGrant : refreshGrant;
  // a failure that ends tokens is committed
  const answer = await ctx.sql.begin((tx) => grant(ctx, tx, client, form));
  if (answer instanceof OAuth2Failure) throw answer;
  return answer;
}

const badCode = () => new OAuth2Failure('invalid_grant', 'The authorization code is invalid, expired or was used.');
const badRefresh = () => new OAuth2Failure('invalid_grant', 'The refresh token is invalid, expired or was used.');

async function endFamily(ctx: Ctx, tx: Tx, family: string): Promise<void> {
  await publishRevoked(ctx, tx, await deleteOAuth2Family(tx, systemTask(ctx), family));
}

async function codeGrant(ctx: Ctx, tx: Tx, client: OAuth2Client, form: Parameters) {
  const text = form('code');
  if (text === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: code');
  const verifier = form('code_verifier');
  if (verifier !== undefined && !PKCE_TEXT.test(verifier))
    throw new OAuth2Failure(
      'invalid_request',
      'code_verifier must have 43 to 128 of the characters A-Z a-z 0-9 - . _ ~',
    );
  const parts = splitSecret(text);
  const code = parts && (await lockOAuth2Code(tx, parts.prefix));
  if (!code || !isSecret(parts.secret, code.hashed_secret) || code.app_id !== client.app.id) return badCode();
  if (code.family !== null) {
    ctx.log.warn('an authorization code was used twice', { app: client.app.id, user: code.user_id });
    await endFamily(ctx, tx, code.family);
    return badCode();
  }
  if (code.expires_at <= ctx.clock.now()) return badCode();
  if (code.redirect_uri !== null && form('redirect_uri') !== code.redirect_uri)
    return new OAuth2Failure('invalid_grant', 'redirect_uri differs from the one of the authorization request.');
  if (!matchesChallenge(code, verifier)) {
    // nobody may try another one
    await deleteOAuth2Code(tx, systemTask(ctx), code.id);
    return new OAuth2Failure('invalid_grant', 'The PKCE code verifier is invalid.');
  }
  if (!isSameResource(ctx, form('resource'), code.resource_uri)) return badResource();
  const family = crypto.randomUUID();
  await useOAuth2Code(tx, systemTask(ctx), code.id, family);
  return issue(ctx, tx, client, { ...code, family, audience: code.resource_uri, created: true });
}

/** A code without a challenge takes no verifier, so that nobody can remove the challenge from a request unnoticed. */
function matchesChallenge({ code_challenge: challenge }: OAuth2CodeRow, verifier: string | undefined): boolean {
  if (challenge === null || verifier === undefined) return challenge === null && verifier === undefined;
  const digest = createHash('sha256').update(verifier).digest('base64url');
  return sameBytes(Buffer.from(digest), Buffer.from(challenge));
}

/** Whether a request names the resource of the grant, or none. */
const isSameResource = ({ accessUrl }: Ctx, sent: string | undefined, granted: string | null): boolean =>
  sent === undefined || (granted !== null && ownResource(sent, accessUrl) === granted);

const badResource = () =>
  new OAuth2Failure('invalid_target', 'The resource differs from the one of the authorization request.');

async function refreshGrant(ctx: Ctx, tx: Tx, client: OAuth2Client, form: Parameters) {
  const text = form('refresh_token');
  if (text === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: refresh_token');
  const parts = splitSecret(text);
  const token = parts && (await lockOAuth2Token(tx, parts.prefix));
  if (!token || !isSecret(parts.secret, token.refresh_hash) || token.app_id !== client.app.id) return badRefresh();
  if (token.used_at !== null) {
    ctx.log.warn('a refresh token was used twice', { app: client.app.id, user: token.user_id });
    await endFamily(ctx, tx, token.family);
    return badRefresh();
  }
  const now = ctx.clock.now();
  if (token.expires_at <= now) return badRefresh();
  if (!isSameResource(ctx, form('resource'), token.audience)) return badResource();
  const access = narrowedScopes(form('scope'), token.scopes);
  if (!(await isActive(tx, token.user_id))) return inactive();
  await publishRevoked(ctx, tx, await useOAuth2Token(tx, systemTask(ctx), token, now));
  return issue(ctx, tx, client, { ...token, access, created: false });
}

const inactive = () => new OAuth2Failure('invalid_grant', 'The account of the person is not active.');

async function isActive(tx: Tx, userId: string): Promise<boolean> {
  const user = await userById(tx, userId);
  return user !== undefined && !user.is_system && user.status !== 'suspended';
}

interface Grant extends Pick<OAuth2TokenRow, 'family' | 'user_id' | 'scopes' | 'audience'> {
  /** The scopes of the access token. Default: all that the person granted. */
  access?: readonly string[];
  /** Whether the person has just let the app in. */
  created: boolean;
}

/** Creates an access token with a refresh token. */
async function issue(ctx: Ctx, tx: Tx, { app, secretId }: OAuth2Client, grant: Grant) {
  if (!(await isActive(tx, grant.user_id))) return inactive();
  const { config, clock } = ctx;
  const { access = grant.scopes, user_id: userId } = grant;
  const owner = verifiedSignIn({ userId });
  const { text, key } = await issueToken(
    ctx,
    owner,
    {
      loginType: 'oauth2_provider_app',
      lifetimeMs: config.sessionDuration,
      tokenName: app.name,
      scope: tokenScope(access),
      audience: grant.audience,
    },
    tx,
  );
  const refresh = newSecret();
  const now = clock.now().getTime();
  await insertOAuth2Token(tx, systemTask(ctx), {
    family: grant.family,
    hash_prefix: refresh.prefix,
    refresh_hash: refresh.hash,
    app_id: app.id,
    app_secret_id: secretId,
    user_id: userId,
    scopes: grant.scopes,
    audience: grant.audience,
    api_key_id: key.id,
    expires_at: new Date(now + (config.defaultOauthRefreshLifetime || config.sessionDuration)),
  });
  if (grant.created) await recordNew(ctx, tx, app, { userId, key, access });
  const answer: TokenAnswer = {
    access_token: text,
    token_type: 'Bearer',
    expires_in: Math.floor((key.expires_at.getTime() - now) / 1_000),
    refresh_token: refresh.text,
    scope: access.join(' '),
    expiry: key.expires_at.toISOString(),
  };
  return answer;
}

/** Audits that an app got in, and ends the oldest families beyond the limit. */
async function recordNew(
  ctx: Ctx,
  tx: Tx,
  app: OAuth2AppRow,
  { userId, key, access }: { userId: string; key: { id: string }; access: readonly string[] },
): Promise<void> {
  await audit(ctx, tx, {
    resourceType: 'api_key',
    resourceId: userId,
    target: app.name,
    action: 'create',
    status: 201,
    after: key,
    userId,
    fields: { api_key_id: key.id, oauth2_app_id: app.id, scopes: [...access] },
  });
  for (const family of await oldOAuth2Families(tx, { appId: app.id, userId, kept: MAX_FAMILIES }))
    await endFamily(ctx, tx, family);
}
