// Who asks at the endpoints for tokens: an app with its id, and with a secret unless it is public (RFC 6749, section 2.3).

import { systemTask } from '../../authz/proofs.ts';
import {
  type OAuth2AppRow,
  type OAuth2SecretRow,
  oauth2AppById,
  oauth2SecretByPrefix,
  touchOAuth2Secret,
} from '../../db/queries/oauth2-apps.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { OAuth2Failure } from './failure.ts';
import type { Parameters } from './parameters.ts';
import { isSecret, splitSecret } from './secret-text.ts';

/** The shortest time between two writes of a secret's last use, in ms. */
const TOUCH_MS = 60_000;

export interface OAuth2Client {
  app: OAuth2AppRow;
  /** The id of the secret. Null: the app is public, or sent none where it may. */
  secretId: string | null;
}

interface Credentials {
  id: string;
  secret: string | undefined;
}

const unknownClient = () => new OAuth2Failure('invalid_client', 'The client credentials are invalid.');

/** The credentials of an Authorization header, whose parts are form-encoded. */
function basicCredentials(header: string | undefined): Credentials | undefined {
  const encoded = /^Basic +([A-Za-z0-9+/=_-]+)$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const [, id = '', secret = ''] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString('utf8')) ?? [];
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text.replaceAll('+', ' '));
    } catch {
      return text;
    }
  };
  return { id: decode(id), secret: decode(secret) };
}

function credentialsOf(form: Parameters, header: string | undefined): Credentials {
  const basic = basicCredentials(header);
  const id = form('client_id');
  const secret = form('client_secret');
  if (basic) {
    if (secret !== undefined || (id !== undefined && id !== basic.id))
      throw new OAuth2Failure('invalid_request', 'Authenticate with the Authorization header or the body, not both.');
    return basic;
  }
  if (id === undefined) throw new OAuth2Failure('invalid_request', 'Missing required parameter: client_id');
  return { id, secret };
}

async function secretOf(ctx: Ctx, app: OAuth2AppRow, text: string): Promise<OAuth2SecretRow> {
  const parts = splitSecret(text);
  const row = parts && (await oauth2SecretByPrefix(ctx.sql, parts.prefix));
  if (!row || !isSecret(parts.secret, row.hashed_secret) || row.app_id !== app.id) throw unknownClient();
  const now = ctx.clock.now();
  if (now.getTime() - (row.last_used_at?.getTime() ?? 0) > TOUCH_MS)
    await touchOAuth2Secret(ctx.sql, systemTask(systemContext(ctx, 'oauth2')), row.id, now);
  return row;
}

/**
 * Finds the app of a request and verifies its secret.
 * @param withoutSecret whether a confidential app may send no secret. A wrong one is rejected in any case
 * @throws OAuth2Failure `invalid_request` or `invalid_client`
 */
export async function findClient(
  ctx: Ctx,
  form: Parameters,
  header: string | undefined,
  { withoutSecret = false } = {},
): Promise<OAuth2Client> {
  const { id, secret } = credentialsOf(form, header);
  const app = isUuid(id) ? await oauth2AppById(ctx.sql, id) : undefined;
  if (!app) throw unknownClient();
  if (app.client_type === 'public') {
    if (secret) throw unknownClient();
    return { app, secretId: null };
  }
  if (secret === undefined || secret === '') {
    if (withoutSecret) return { app, secretId: null };
    throw new OAuth2Failure('invalid_client', 'Missing client authentication: send client_secret, or use HTTP Basic.');
  }
  return { app, secretId: (await secretOf(ctx, app, secret)).id };
}
