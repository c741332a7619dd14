// The apps that an administrator lets sign people in. Everyone may read them, but not their secrets.

import type {
  OAuth2ProviderApp,
  OAuth2ProviderAppSecret,
  OAuth2ProviderAppSecretFull,
  PostOAuth2ProviderAppRequest,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Tx } from '../../db/connect.ts';
import { lockLimit } from '../../db/queries/limits.ts';
import {
  countOAuth2Apps,
  insertOAuth2App,
  insertOAuth2Secret,
  type OAuth2AppFields,
  type OAuth2AppRow,
  oauth2AppById,
  oauth2Apps,
  oauth2Secrets,
  updateOAuth2App,
} from '../../db/queries/oauth2-apps.ts';
import { deleteOAuth2App, deleteOAuth2Grants, deleteOAuth2Secret } from '../../db/queries/oauth2-tokens.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { redirectProblem } from './redirects.ts';
import { type NewSecret, newSecret } from './secret-text.ts';

const MAX_APPS = 1_000;
const MAX_SECRETS_PER_APP = 20;
/** The longest list: apps of administrators and those that registered themselves. */
const MAX_LISTED = 10_000;
const MAX_NAME = 64;

export const toOAuth2App = ({ accessUrl }: Pick<Ctx, 'accessUrl'>, row: OAuth2AppRow): OAuth2ProviderApp => ({
  id: row.id,
  name: row.name,
  icon: row.icon,
  callback_url: row.callback_url,
  endpoints: {
    authorization: `${accessUrl}/oauth2/authorize`,
    token: `${accessUrl}/oauth2/tokens`,
    token_revoke: `${accessUrl}/oauth2/revoke`,
    device_authorization: '',
  },
});

/** All apps, or those that a person lets in. */
export async function listOAuth2Apps(ctx: Ctx, user: string | undefined): Promise<OAuth2ProviderApp[]> {
  authorize(ctx, 'read', { type: 'oauth2_app' });
  let ownerId: string | undefined;
  if (user !== undefined && user !== '') {
    ({ id: ownerId } = await findUser(ctx, 'read', user));
    authorize(ctx, 'read', { type: 'oauth2_app_code_token', ownerId });
  }
  const rows = await oauth2Apps(ctx.sql, ownerId, ctx.clock.now(), MAX_LISTED);
  return rows.map((row) => toOAuth2App(ctx, row));
}

async function findApp<A extends 'read' | 'update' | 'delete'>(
  ctx: Ctx,
  id: string,
  action: A,
): Promise<Allowed<A, OAuth2AppRow>> {
  const row = isUuid(id) ? await oauth2AppById(ctx.sql, id) : undefined;
  if (!row) throw notFound();
  return allow(ctx, action, row, { type: 'oauth2_app', id: row.id, name: 'app' });
}

export async function getOAuth2App(ctx: Ctx, id: string): Promise<OAuth2ProviderApp> {
  return toOAuth2App(ctx, await findApp(ctx, id, 'read'));
}

/** @throws AppError `invalid` with the fields that are wrong */
function checkedFields({ name, callback_url: callbackUrl, icon = '' }: PostOAuth2ProviderAppRequest) {
  const validations = [];
  if (name.trim() !== name || name.length > MAX_NAME || /\p{C}/u.test(name))
    validations.push({
      field: 'name',
      detail: `must be up to ${MAX_NAME} printable characters, without spaces around`,
    });
  const problem = redirectProblem(callbackUrl, false);
  if (problem) validations.push({ field: 'callback_url', detail: problem });
  if (validations.length > 0) throw new AppError('invalid', 'Validation failed.', { validations });
  return { name, callback_url: callbackUrl, icon };
}

export const entryOfApp = ({ id, name, icon }: OAuth2AppRow) => ({
  resourceType: 'oauth2_provider_app',
  resourceId: id,
  target: name,
  icon,
});

export async function createOAuth2App(ctx: Ctx, input: PostOAuth2ProviderAppRequest): Promise<OAuth2ProviderApp> {
  const by = authorize(ctx, 'create', { type: 'oauth2_app' });
  const fields: OAuth2AppFields = {
    ...checkedFields(input),
    redirect_uris: [input.callback_url],
    client_type: 'confidential',
    dynamically_registered: false,
    metadata: {},
    scope: '',
    registration_hash: null,
  };
  return ctx.sql.begin(async (tx) => {
    await lockLimit(tx, 'oauth2 apps', '');
    if ((await countOAuth2Apps(tx, false)) >= MAX_APPS)
      throw new AppError('conflict', `The deployment already has ${MAX_APPS} OAuth2 apps. Delete one and try again.`);
    const row = await insertOAuth2App(tx, by, fields);
    await audit(ctx, tx, { ...entryOfApp(row), action: 'create', status: 201, after: row });
    return toOAuth2App(ctx, row);
  });
}

/** Changes an app. A new callback URL replaces the old one. Further addresses that the app registered stay. */
export async function changeOAuth2App(
  ctx: Ctx,
  id: string,
  input: PostOAuth2ProviderAppRequest,
): Promise<OAuth2ProviderApp> {
  const before = await findApp(ctx, id, 'update');
  const fields = checkedFields(input);
  const others = before.redirect_uris.filter((uri) => uri !== before.callback_url && uri !== fields.callback_url);
  const { id: _id, created_at: _created, updated_at: _updated, ...rest } = before as OAuth2AppRow;
  return ctx.sql.begin(async (tx) => {
    const after = await updateOAuth2App(tx, before, {
      ...rest,
      ...fields,
      redirect_uris: [fields.callback_url, ...others],
    });
    if (!after) throw notFound();
    await audit(ctx, tx, { ...entryOfApp(after), action: 'write', before, after });
    return toOAuth2App(ctx, after);
  });
}

/** Announces that keys have ended. */
export async function publishRevoked(ctx: Pick<Ctx, 'events'>, tx: Tx, ids: string[]): Promise<void> {
  if (ids.length > 0) await ctx.events.publish(tx, 'revoked', { api_key_ids: ids });
}

/** Deletes an app, with all that people granted it. */
export async function removeOAuth2App(ctx: Ctx, id: string): Promise<undefined> {
  const row = await findApp(ctx, id, 'delete');
  await ctx.sql.begin(async (tx) => {
    const ids = await deleteOAuth2App(tx, row);
    await audit(ctx, tx, { ...entryOfApp(row), action: 'delete', status: 204, before: row });
    await publishRevoked(ctx, tx, ids);
  });
}

const SECRET = { type: 'oauth2_app_secret', name: 'secret' } as const;

export async function listOAuth2Secrets(ctx: Ctx, app: string): Promise<OAuth2ProviderAppSecret[]> {
  const { id } = await findApp(ctx, app, 'read');
  authorize(ctx, 'read', SECRET);
  return (await oauth2Secrets(ctx.sql, id)).map((row) => ({
    id: row.id,
    client_secret_truncated: row.display_secret,
    last_used_at: row.last_used_at && time(row.last_used_at),
  }));
}

export const rowOfSecret = (app: OAuth2AppRow, { text, prefix, hash }: NewSecret) => ({
  app_id: app.id,
  secret_prefix: prefix,
  hashed_secret: hash,
  display_secret: text.slice(-6),
});

export async function createOAuth2Secret(ctx: Ctx, id: string): Promise<OAuth2ProviderAppSecretFull> {
  const app = await findApp(ctx, id, 'read');
  const by = authorize(ctx, 'create', SECRET);
  if (app.client_type === 'public')
    throw new AppError('conflict', 'This app registered without a secret. It proves itself with PKCE alone.');
  const secret = newSecret();
  return ctx.sql.begin(async (tx) => {
    await lockLimit(tx, 'oauth2 secrets', app.id);
    if ((await oauth2Secrets(tx, app.id)).length >= MAX_SECRETS_PER_APP)
      throw new AppError('conflict', `The app already has ${MAX_SECRETS_PER_APP} secrets. Delete one and try again.`);
    const row = await insertOAuth2Secret(tx, by, rowOfSecret(app, secret));
    await audit(ctx, tx, { ...entryOfSecret(row.id, app), action: 'create', status: 201, after: row });
    return { id: row.id, client_secret_full: secret.text };
  });
}

const entryOfSecret = (id: string, app: OAuth2AppRow) => ({
  resourceType: 'oauth2_provider_app_secret',
  resourceId: id,
  target: app.name,
  fields: { app_id: app.id },
});

/** Deletes a secret, with the tokens that were made with it. */
export async function removeOAuth2Secret(ctx: Ctx, id: string, secretId: string): Promise<undefined> {
  const app = await findApp(ctx, id, 'read');
  authorize(ctx, 'read', SECRET);
  const found = (await oauth2Secrets(ctx.sql, app.id)).find((secret) => secret.id === secretId.toLowerCase());
  if (!found) throw notFound();
  const secret = allow(ctx, 'delete', found, { ...SECRET, id: found.id });
  await ctx.sql.begin(async (tx) => {
    const ids = await deleteOAuth2Secret(tx, secret);
    await audit(ctx, tx, { ...entryOfSecret(found.id, app), action: 'delete', status: 204, before: found });
    await publishRevoked(ctx, tx, ids);
  });
}

/** Ends all that an app may do for the person who asks. */
export async function endOAuth2Access(ctx: Ctx, id: string): Promise<void> {
  if (ctx.actor.kind !== 'user') throw notFound();
  const owner = authorize(ctx, 'delete', { type: 'oauth2_app_code_token', ownerId: ctx.actor.id });
  const app = await findApp(ctx, id, 'read');
  await ctx.sql.begin(async (tx) => {
    const ids = await deleteOAuth2Grants(tx, owner, app.id);
    if (ids.length === 0) return;
    await audit(ctx, tx, {
      resourceType: 'api_key',
      resourceId: owner.ownerId,
      target: app.name,
      action: 'delete',
      status: 204,
      fields: { api_key_ids: ids, oauth2_app_id: app.id },
    });
    await publishRevoked(ctx, tx, ids);
  });
}
