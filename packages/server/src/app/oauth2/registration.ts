// Apps that register themselves (RFC 7591) and manage their registration (RFC 7592). Anyone who reaches the server can
// register while the switch is on, so the consent page says that nobody has checked such an app.

import { visible } from '@ropewalk/kit/visible';
import { systemTask } from '../../authz/proofs.ts';
import { lockLimit } from '../../db/queries/limits.ts';
import {
  countOAuth2Apps,
  insertOAuth2App,
  insertOAuth2Secret,
  type OAuth2AppFields,
  type OAuth2AppRow,
  oauth2AppById,
  updateOAuth2App,
} from '../../db/queries/oauth2-apps.ts';
import { deleteOAuth2App } from '../../db/queries/oauth2-tokens.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { entryOfApp, publishRevoked, rowOfSecret } from './apps.ts';
import { OAuth2Failure } from './failure.ts';
import { redirectProblem } from './redirects.ts';
import { requestedScopes } from './scopes.ts';
import { isSecret, newSecret, splitSecret } from './secret-text.ts';
import { isRegistrationOpen } from './settings.ts';
import { clientContext } from './tokens.ts';

/** The maximum number of apps that registered themselves. The purge deletes those that nobody lets in. */
const MAX_REGISTERED = 5_000;
const MAX_REDIRECTS = 20;
const MAX_CONTACTS = 20;
const MAX_TEXT = 2_048;
const MAX_NAME = 64;
const METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const;

type Method = (typeof METHODS)[number];

const invalid = (message: string) => new OAuth2Failure('invalid_client_metadata', message);

type Body = Readonly<Record<string, unknown>>;

function textOf(body: Body, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string' || value.length > MAX_TEXT || value.includes('\0'))
    throw invalid(`${name} must be a text of up to ${MAX_TEXT} characters.`);
  return value;
}

function listOf(body: Body, name: string, most: number): string[] | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  const valid =
    Array.isArray(value) &&
    value.length <= most &&
    value.every((item) => typeof item === 'string' && item.length <= MAX_TEXT && !item.includes('\0'));
  if (!valid) throw invalid(`${name} must be a list of up to ${most} texts.`);
  return value.length > 0 ? (value as string[]) : undefined;
}

function addressOf(body: Body, name: string): string | undefined {
  const text = textOf(body, name);
  if (text === undefined) return undefined;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw invalid(`${name} must be an http or https URL.`);
}

function choicesOf(body: Body, name: string, supported: readonly string[], required: string): string[] | undefined {
  const values = listOf(body, name, supported.length);
  if (!values) return undefined;
  const other = values.find((value) => !supported.includes(value));
  if (other !== undefined) throw invalid(`Unsupported ${name}: ${JSON.stringify(other.slice(0, 64))}`);
  if (!values.includes(required)) throw invalid(`${name} must contain ${required}.`);
  return values;
}

function redirectsOf(body: Body): string[] {
  const uris = listOf(body, 'redirect_uris', MAX_REDIRECTS);
  if (!uris) throw new OAuth2Failure('invalid_redirect_uri', 'redirect_uris must have at least one address.');
  for (const uri of uris) {
    const problem = redirectProblem(uri, true);
    if (problem) throw new OAuth2Failure('invalid_redirect_uri', `${JSON.stringify(uri.slice(0, 200))} ${problem}.`);
  }
  return [...new Set(uris)];
}

function scopeOf(body: Body): string {
  const scope = textOf(body, 'scope');
  if (scope === undefined) return '';
  try {
    return requestedScopes(scope, '').join(' ');
  } catch {
    throw invalid('scope contains a scope that this server does not have. See scopes_supported.');
  }
}

/** The metadata that only describes an app. */
function descriptionOf(body: Body) {
  const texts = ['software_id', 'software_version'].map((name) => [name, textOf(body, name)]);
  const addresses = ['client_uri', 'logo_uri', 'tos_uri', 'policy_uri', 'jwks_uri'].map((name) => [
    name,
    addressOf(body, name),
  ]);
  const contacts = listOf(body, 'contacts', MAX_CONTACTS);
  const known = [...texts, ...addresses, ['contacts', contacts]].filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as Record<string, unknown>;
}

interface Metadata {
  fields: Omit<OAuth2AppFields, 'registration_hash'>;
  method: Method;
}

/** @throws OAuth2Failure `invalid_client_metadata` or `invalid_redirect_uri` */
function readMetadata(given: unknown): Metadata {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw invalid('The body must be an object.');
  const body = given as Body;
  const redirectUris = redirectsOf(body);
  const method = (textOf(body, 'token_endpoint_auth_method') ?? 'client_secret_basic') as Method;
  if (!METHODS.includes(method)) throw invalid('Unsupported token_endpoint_auth_method.');
  const grantTypes = choicesOf(body, 'grant_types', ['authorization_code', 'refresh_token'], 'authorization_code');
  const responseTypes = choicesOf(body, 'response_types', ['code'], 'code');
  const description = descriptionOf(body);
  const name = visible((textOf(body, 'client_name') ?? 'Unnamed app').trim()).slice(0, MAX_NAME);
  return {
    method,
    fields: {
      name: name || 'Unnamed app',
      // pages of this server load nothing that a stranger chose
      icon: '',
      callback_url: redirectUris[0]!,
      redirect_uris: redirectUris,
      client_type: method === 'none' ? 'public' : 'confidential',
      dynamically_registered: true,
      metadata: {
        ...description,
        token_endpoint_auth_method: method,
        grant_types: grantTypes ?? ['authorization_code', 'refresh_token'],
        response_types: responseTypes ?? ['code'],
      },
      scope: scopeOf(body),
    },
  };
}

function toRegistration({ accessUrl }: Pick<Ctx, 'accessUrl'>, app: OAuth2AppRow, token: string): object {
  return {
    client_id: app.id,
    client_id_issued_at: Math.floor(app.created_at.getTime() / 1_000),
    // never
    client_secret_expires_at: 0,
    client_name: app.name,
    redirect_uris: app.redirect_uris,
    ...app.metadata,
    ...(app.scope === '' ? {} : { scope: app.scope }),
    registration_access_token: token,
    registration_client_uri: `${accessUrl}/oauth2/clients/${app.id}`,
  };
}

/** Registers an app. @throws OAuth2Failure */
export async function registerApp(given: Ctx, body: unknown): Promise<object> {
  const ctx = clientContext(given);
  if (!(await isRegistrationOpen(ctx)))
    throw new OAuth2Failure('invalid_request', 'Dynamic client registration is disabled on this deployment.', 403);
  const { fields, method } = readMetadata(body);
  const token = newSecret();
  const secret = method === 'none' ? undefined : newSecret();
  return ctx.sql.begin(async (tx) => {
    await lockLimit(tx, 'oauth2 apps', 'registered');
    if ((await countOAuth2Apps(tx, true)) >= MAX_REGISTERED)
      throw new OAuth2Failure('temporarily_unavailable', 'Too many apps have registered. Try again in some days.');
    const app = await insertOAuth2App(tx, systemTask(ctx), { ...fields, registration_hash: token.hash });
    if (secret) await insertOAuth2Secret(tx, systemTask(ctx), rowOfSecret(app, secret));
    await audit(ctx, tx, { ...entryOfApp(app), action: 'create', status: 201, after: app });
    const issued = Math.floor(app.created_at.getTime() / 1_000);
    const credentials = secret ? { client_secret: secret.text } : {};
    return { ...toRegistration(ctx, app, token.text), ...credentials, client_id_issued_at: issued };
  });
}

/**
 * Finds the app whose registration token a request has.
 * @throws OAuth2Failure `invalid_token`, also for apps that do not exist
 */
async function findRegistered(ctx: Ctx, id: string, header: string | undefined) {
  const token = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1];
  const parts = token === undefined ? undefined : splitSecret(token);
  const app = isUuid(id) ? await oauth2AppById(ctx.sql, id) : undefined;
  if (!parts || !app?.registration_hash || !isSecret(parts.secret, app.registration_hash))
    throw new OAuth2Failure('invalid_token', 'The registration access token is invalid.');
  return { app, token: token!, by: { ...systemTask(ctx), row: app } };
}

export async function readRegistration(given: Ctx, id: string, header: string | undefined): Promise<object> {
  const { app, token } = await findRegistered(clientContext(given), id, header);
  return toRegistration(given, app, token);
}

/** Replaces the metadata. Whether an app has a secret stays. */
export async function changeRegistration(
  given: Ctx,
  id: string,
  header: string | undefined,
  body: unknown,
): Promise<object> {
  const ctx = clientContext(given);
  const { app, token, by } = await findRegistered(ctx, id, header);
  const { fields } = readMetadata(body);
  const named = (body as Body)['client_id'];
  if (named !== undefined && named !== app.id) throw invalid('client_id differs from the one of the address.');
  if (fields.client_type !== app.client_type)
    throw invalid('An app with a secret cannot become one without, or the other way around. Register again.');
  return ctx.sql.begin(async (tx) => {
    const after = await updateOAuth2App(tx, by, { ...fields, registration_hash: app.registration_hash });
    if (!after) throw new OAuth2Failure('invalid_token', 'The app was deleted.');
    await audit(ctx, tx, { ...entryOfApp(after), action: 'write', before: app, after });
    return toRegistration(ctx, after, token);
  });
}

/** Deletes an app, with all that people granted it. */
export async function deleteRegistration(given: Ctx, id: string, header: string | undefined): Promise<void> {
  const ctx = clientContext(given);
  const { app, by } = await findRegistered(ctx, id, header);
  await ctx.sql.begin(async (tx) => {
    const ids = await deleteOAuth2App(tx, by);
    await audit(ctx, tx, { ...entryOfApp(app), action: 'delete', status: 204, before: app });
    await publishRevoked(ctx, tx, ids);
  });
}
