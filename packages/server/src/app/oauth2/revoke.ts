// An app gives a token back (RFC 7009). Access and refresh tokens of one family end together.

import { systemTask } from '../../authz/proofs.ts';
import type { Tx } from '../../db/connect.ts';
import { apiKeyById } from '../../db/queries/apikeys.ts';
import { deleteOAuth2Family, lockOAuth2Token, oauth2TokenOfKey } from '../../db/queries/oauth2-tokens.ts';
import type { Ctx } from '../context/context.ts';
import { hashOfSecret, sameBytes, splitToken } from '../values/token.ts';
import { publishRevoked } from './apps.ts';
import { findClient } from './clients.ts';
import { OAuth2Failure } from './failure.ts';
import { readParameters } from './parameters.ts';
import { isSecret, splitSecret } from './secret-text.ts';
import { clientContext } from './tokens.ts';

/**
 * Ends the tokens of a family. Tokens that do not exist, or belong to another app, cause no error. The token itself proves
 * the right to end it, as in upstream, so a secret is optional.
 * @throws OAuth2Failure
 */
export async function revokeOAuth2(given: Ctx, values: URLSearchParams, header: string | undefined): Promise<void> {
  const ctx = clientContext(given);
  const form = readParameters(values, ['client_id', 'client_secret', 'token', 'token_type_hint']);
  const { app } = await findClient(ctx, form, header, { withoutSecret: true });
  const text = form('token');
  if (text === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: token');
  await ctx.sql.begin(async (tx) => {
    const token = (await refreshTokenOf(tx, text)) ?? (await tokenOfAccess(tx, text));
    if (token?.app_id !== app.id) return;
    await publishRevoked(ctx, tx, await deleteOAuth2Family(tx, systemTask(ctx), token.family));
  });
}

async function refreshTokenOf(tx: Tx, text: string) {
  const parts = splitSecret(text);
  const token = parts && (await lockOAuth2Token(tx, parts.prefix));
  return token && isSecret(parts.secret, token.refresh_hash) ? token : undefined;
}

async function tokenOfAccess(tx: Tx, text: string) {
  const parts = splitToken(text);
  const key = parts && (await apiKeyById(tx, parts.id));
  if (key?.login_type !== 'oauth2_provider_app') return undefined;
  if (!sameBytes(key.hashed_secret, hashOfSecret(parts!.secret, 'oauth2'))) return undefined;
  return oauth2TokenOfKey(tx, key.id);
}
