// The request for a code (RFC 6749, section 4.1.1). Errors in the app or its address are shown to the person, since the
// browser must not go to an address that nobody registered. All others go back to the app.

import { AppError } from '@ropewalk/kit';
import type { UserActor } from '../../authz/actor.ts';
import { verifiedToken } from '../../authz/proofs.ts';
import { isFull } from '../../authz/scope.ts';
import { apiKeyById, isSession } from '../../db/queries/apikeys.ts';
import { type OAuth2AppRow, oauth2AppById } from '../../db/queries/oauth2-apps.ts';
import { insertOAuth2Code } from '../../db/queries/oauth2-tokens.ts';
import type { Ctx } from '../context/context.ts';
import { requireTokenRoom } from '../context/limits.ts';
import { beginInTurn } from '../lists/turns.ts';
import { ownResource } from '../values/audience.ts';
import { isUuid } from '../values/ids.ts';
import { OAuth2Failure } from './failure.ts';
import { readParameters } from './parameters.ts';
import { redirectFor, redirectWith } from './redirects.ts';
import { requestedScopes } from './scopes.ts';
import { newSecret } from './secret-text.ts';

const CODE_MS = 10 * 60_000;
const NAMES = [
  'client_id',
  'code_challenge',
  'code_challenge_method',
  'redirect_uri',
  'resource',
  'response_type',
  'scope',
  'state',
] as const;
/** RFC 7636, section 4.1. */
export const PKCE_TEXT = /^[A-Za-z0-9._~-]{43,128}$/;

export interface AuthorizeRequest {
  app: OAuth2AppRow;
  /** Where the browser goes. */
  redirectUri: string;
  /** The same, if the request contained it. */
  sentRedirectUri: string | undefined;
  state: string | undefined;
  scopes: string[];
  resource: string | undefined;
  codeChallenge: string | undefined;
}

/** An error for the app, with the address that takes it there. */
export interface AuthorizeFailure {
  app: OAuth2AppRow;
  redirectUri: string;
  failure: OAuth2Failure;
  location: string;
}

/** The answer for the app: the address with the parameters, the state of the request and the issuer (RFC 9207). */
function locationOf(
  { accessUrl }: Pick<Ctx, 'accessUrl'>,
  { redirectUri, state }: Pick<AuthorizeRequest, 'redirectUri' | 'state'>,
  parameters: Record<string, string>,
): string {
  return redirectWith(redirectUri, { ...parameters, state, iss: accessUrl });
}

/**
 * Reads a request for a code.
 * @throws AppError `invalid` if the app is unknown or did not register the address
 */
export async function readAuthorizeRequest(
  ctx: Ctx,
  query: URLSearchParams,
): Promise<AuthorizeRequest | AuthorizeFailure> {
  const app = await appOf(ctx, query);
  const given = query.getAll('redirect_uri').filter(Boolean);
  const redirectUri = given.length > 1 ? undefined : redirectFor(app, given[0]);
  if (redirectUri === undefined)
    throw new AppError('invalid', 'The redirect URI does not belong to this app.', {
      detail: `"${app.name}" did not register the address that it asks the browser to return to. Ask the people who run the app.`,
    });
  const states = query.getAll('state');
  const state = states.length === 1 && states[0] ? states[0] : undefined;
  try {
    const get = readParameters(query, NAMES);
    return {
      app,
      redirectUri,
      sentRedirectUri: given[0],
      state,
      ...checkedChoices(ctx, app, get),
    };
  } catch (err) {
    if (!(err instanceof OAuth2Failure)) throw err;
    const parameters = { error: err.error, error_description: err.message };
    return { app, redirectUri, failure: err, location: locationOf(ctx, { redirectUri, state }, parameters) };
  }
}

async function appOf(ctx: Ctx, query: URLSearchParams): Promise<OAuth2AppRow> {
  const ids = query.getAll('client_id');
  const app = ids.length === 1 && isUuid(ids[0]!) ? await oauth2AppById(ctx.sql, ids[0]!) : undefined;
  if (app) return app;
  throw new AppError('invalid', 'Unknown app.', {
    detail: 'The parameter client_id is missing, or names an app that this server does not have.',
  });
}

function checkedChoices(ctx: Ctx, app: OAuth2AppRow, get: ReturnType<typeof readParameters>) {
  const type = get('response_type');
  if (type === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: response_type');
  if (type !== 'code') throw new OAuth2Failure('unsupported_response_type', 'Only response_type=code is supported.');
  const codeChallenge = get('code_challenge');
  const method = get('code_challenge_method') ?? 'S256';
  if (method !== 'S256') throw new OAuth2Failure('invalid_request', 'Only code_challenge_method=S256 is supported.');
  if (codeChallenge === undefined && (app.client_type === 'public' || get('code_challenge_method') !== undefined))
    throw new OAuth2Failure('invalid_request', 'Missing required parameter: code_challenge');
  if (codeChallenge !== undefined && !PKCE_TEXT.test(codeChallenge))
    throw new OAuth2Failure(
      'invalid_request',
      'code_challenge must have 43 to 128 of the characters A-Z a-z 0-9 - . _ ~',
    );
  const sent = get('resource');
  const resource = sent === undefined ? undefined : ownResource(sent, ctx.accessUrl);
  if (sent !== undefined && resource === undefined)
    throw new OAuth2Failure('invalid_target', 'The resource is not one of this server.');
  return { codeChallenge, resource, scopes: requestedScopes(get('scope'), app.scope) };
}

/** @throws AppError `forbidden` unless the person signed in: a token must not create tokens that outlive it */
export async function requireSession(ctx: Ctx, actor: UserActor): Promise<void> {
  const key = await apiKeyById(ctx.sql, actor.apiKeyId);
  if (key && isSession(key) && isFull(actor.scope)) return;
  throw new AppError('forbidden', 'A token cannot let an app in.', { detail: 'Sign in, then try again.' });
}

/** Lets the app in. Returns the address that takes a new code to it. */
export async function approve(ctx: Ctx, actor: UserActor, request: AuthorizeRequest): Promise<string> {
  const code = newSecret();
  await requireSession(ctx, actor);
  await beginInTurn(
    ctx,
    async (tx) => {
      await requireTokenRoom(ctx, tx, actor, false);
      await insertOAuth2Code(tx, verifiedToken(actor), {
        secret_prefix: code.prefix,
        hashed_secret: code.hash,
        app_id: request.app.id,
        scopes: request.scopes,
        redirect_uri: request.sentRedirectUri ?? null,
        resource_uri: request.resource ?? null,
        code_challenge: request.codeChallenge ?? null,
        expires_at: new Date(ctx.clock.now().getTime() + CODE_MS),
      });
    },
    'oauth2',
  );
  return locationOf(ctx, request, { code: code.text });
}

/** The address that takes the person's refusal to the app. */
export const denialLocation = (ctx: Pick<Ctx, 'accessUrl'>, request: AuthorizeRequest): string =>
  locationOf(ctx, request, { error: 'access_denied', error_description: 'The person did not let the app in.' });
