import type { IncomingHttpHeaders } from 'node:http';
import type {
  CreateProvisionerKeyRequest,
  CreateProvisionerKeyResponse,
  ProvisionerDaemon,
  ProvisionerKey,
  ProvisionerKeyDaemons,
} from '@platform/contract';
import { AppError } from '@platform/kit';
import { notFound } from '../../authz/not-found.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  BUILT_IN_KEY_ID,
  deleteIdleDaemonsOfKey,
  PSK_KEY_ID,
  recentDaemons,
  USER_AUTH_KEY_ID,
} from '../../db/queries/daemons.ts';
import {
  deleteProvisionerKey,
  insertProvisionerKey,
  type ProvisionerKeyRow,
  provisionerKeyBySecret,
  provisionerKeysOf,
} from '../../db/queries/provisioner-keys.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { NIL_UUID } from '../ids.ts';
import { mutateTags } from '../job/tags.ts';
import { findInOrganization } from '../organization/find.ts';
import { time } from '../time.ts';
import { randomText, sha256 } from '../token.ts';
import { listDaemons } from './list.ts';

const SECRET_LENGTH = 43;
const MOST_NAME_BYTES = 64;
/** Names of the ways in that are no keys, with the ids that their daemons carry. */
const RESERVED: Readonly<Record<string, string>> = {
  'built-in': BUILT_IN_KEY_ID,
  'user-auth': USER_AUTH_KEY_ID,
  psk: PSK_KEY_ID,
};
/** How far back a daemon counts as one of its key's. */
const SEEN_WITHIN_MS = 3 * 60_000;
/** As many daemons as one listing gives. */
const AT_ONCE = 1_000;

function toKey(row: ProvisionerKeyRow): ProvisionerKey {
  return {
    id: row.id,
    created_at: time(row.created_at),
    organization: row.organization_id,
    name: row.name,
    tags: row.tags,
  };
}

const isReserved = (name: string) => Object.hasOwn(RESERVED, name.toLowerCase());

/** As it is kept: in lower case, so that two names that differ in case alone are one. */
function checkedName(text: string): string {
  const name = text.toLowerCase();
  const refuse = (detail: string) =>
    new AppError('invalid', 'Invalid provisioner key name.', { validations: [{ field: 'name', detail }] });
  if (name === '') throw refuse('a name is needed');
  if (Buffer.byteLength(name) > MOST_NAME_BYTES) throw refuse(`must be at most ${MOST_NAME_BYTES} bytes long`);
  if (name.includes('\0')) throw refuse('must not hold NUL');
  if (isReserved(name)) throw refuse(`${JSON.stringify(name)} is reserved`);
  return name;
}

/** A key is a right to run daemons: upstream's roles have no resource type of its own for it. */
const KEY = { type: 'provisioner_daemon', name: 'provisioner key' } as const;
/** People who may read the daemons and the queue may read the keys. Plain members may read none of them. */
const READABLE = { type: 'provisioner_jobs' } as const;

/** Makes a key for daemons of this organization. The answer is the only place where its secret is shown. */
export async function createKey(
  ctx: Ctx,
  organization: string,
  input: CreateProvisionerKeyRequest,
): Promise<CreateProvisionerKeyResponse> {
  const place = await findInOrganization(ctx, 'create', KEY, organization);
  const { organizationId } = place;
  const name = checkedName(input.name);
  const tags = input.tags ?? {};
  // what a daemon could not join with is refused now
  mutateTags(NIL_UUID, tags);
  const secret = randomText(SECRET_LENGTH);
  try {
    await ctx.sql.begin(async (tx) => {
      const id = await insertProvisionerKey(tx, place, { name, hashed_secret: sha256(secret), tags });
      await audit(ctx, tx, {
        resourceType: 'provisioner_key',
        resourceId: id,
        target: name,
        action: 'create',
        organizationId,
        status: 201,
        fields: { tags },
      });
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `Provisioner key with name "${name}" already exists in this organization.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  return { key: secret };
}

/** An organization's keys, oldest first, without the reserved ones. */
export async function listKeys(ctx: Ctx, organization: string): Promise<ProvisionerKey[]> {
  const { organizationId } = await findInOrganization(ctx, 'read', READABLE, organization);
  return (await provisionerKeysOf(ctx.sql, organizationId)).map(toKey);
}

/**
 * The daemons seen lately, by what let them in. The built-in daemons and the pre-shared key belong to the default
 * organization alone; users let daemons into each.
 */
export async function listKeyDaemons(ctx: Ctx, organization: string): Promise<ProvisionerKeyDaemons[]> {
  const place = await findInOrganization(ctx, 'read', READABLE, organization);
  const found = place.organization;
  const names = found.is_default ? Object.keys(RESERVED) : ['user-auth'];
  const reserved = names.map((name) => ({
    id: RESERVED[name]!,
    organization_id: found.id,
    name,
    tags: {},
    created_at: found.created_at,
  }));
  const keys = [...reserved, ...(await provisionerKeysOf(ctx.sql, place.organizationId))];
  const seen = await recentDaemons(ctx.sql, found.id, SEEN_WITHIN_MS);
  const daemons: ProvisionerDaemon[] = [];
  for (let from = 0; from < seen.length; from += AT_ONCE) {
    const ids = seen.slice(from, from + AT_ONCE);
    daemons.push(...(await listDaemons(ctx, found.id, { ids: ids.join(','), limit: AT_ONCE })));
  }
  return keys.map((key) => ({ key: toKey(key), daemons: daemons.filter(({ key_id }) => key_id === key.id) }));
}

/**
 * Deletes a key by name. Its daemons are notified in the same transaction: they cancel what they run and take no more jobs.
 * The rows of those that run a job stay, so that the job keeps naming its worker; the purge removes them later.
 */
export async function deleteKey(ctx: Ctx, organization: string, name: string): Promise<undefined> {
  const place = await findInOrganization(ctx, 'delete', KEY, organization);
  const { organizationId } = place;
  if (isReserved(name)) throw new AppError('invalid', `The provisioner key ${JSON.stringify(name)} is reserved.`);
  if (name.includes('\0')) throw notFound();
  await ctx.sql.begin(async (tx) => {
    const row = await deleteProvisionerKey(tx, place, name.toLowerCase());
    if (!row) throw notFound();
    await deleteIdleDaemonsOfKey(tx, place, row.id);
    await ctx.events.publish(tx, 'revoked', { provisioner_key_ids: [row.id] });
    await audit(ctx, tx, {
      resourceType: 'provisioner_key',
      resourceId: row.id,
      target: row.name,
      action: 'delete',
      organizationId,
      status: 204,
    });
  });
}

/** The key that a daemon holds, by its secret in the header. */
export async function keyOfHeaders(ctx: Ctx, headers: IncomingHttpHeaders): Promise<ProvisionerKey> {
  const secret = headers['coder-provisioner-daemon-key'];
  const refuse = (detail: string) =>
    new AppError('unauthenticated', 'Provisioner daemon authentication failed.', { detail });
  if (typeof secret !== 'string' || secret === '') throw refuse('Send a provisioner key.');
  if (headers['coder-provisioner-daemon-psk']) {
    throw new AppError('invalid', 'Send either a provisioner key or a pre-shared key, not both.');
  }
  if (secret.length !== SECRET_LENGTH) {
    throw new AppError('invalid', `A provisioner key has ${SECRET_LENGTH} characters.`);
  }
  const row = await provisionerKeyBySecret(ctx.sql, sha256(secret));
  if (!row) throw refuse('There is no such provisioner key.');
  return toKey(row);
}
