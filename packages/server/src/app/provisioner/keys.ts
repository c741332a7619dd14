import type { IncomingHttpHeaders } from 'node:http';
import type {
  CreateProvisionerKeyRequest,
  CreateProvisionerKeyResponse,
  ProvisionerDaemon,
  ProvisionerKey,
  ProvisionerKeyDaemons,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
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
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireProvisionerKeyRoom } from '../context/limits.ts';
import { findInOrganization } from '../find/organization.ts';
import { mutateTags } from '../job/tags.ts';
import { beginInTurn } from '../lists/turns.ts';
import { NIL_UUID } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { randomText, sha256 } from '../values/token.ts';
import { listDaemons } from './list.ts';

const SECRET_LENGTH = 43;
const MAX_NAME_BYTES = 64;
/** Names of credentials that are not keys, with the ids that their daemons have. */
const RESERVED: Readonly<Record<string, string>> = {
  'built-in': BUILT_IN_KEY_ID,
  'user-auth': USER_AUTH_KEY_ID,
  psk: PSK_KEY_ID,
};
/** How recently a daemon must have been seen to be listed with its key, in ms. */
const SEEN_WITHIN_MS = 3 * 60_000;
/** The maximum number of daemons in one list. */
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

/** The name as stored: in lower case, so that names are unique whatever their case. */
function checkedName(text: string): string {
  const name = text.toLowerCase();
  const invalid = (detail: string) =>
    new AppError('invalid', 'Invalid provisioner key name.', { validations: [{ field: 'name', detail }] });
  if (name === '') throw invalid('must not be empty');
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw invalid(`must be at most ${MAX_NAME_BYTES} bytes long`);
  if (name.includes('\0')) throw invalid('must not contain NUL');
  if (isReserved(name)) throw invalid(`${JSON.stringify(name)} is reserved`);
  return name;
}

/** A key is the permission to run daemons. Upstream's roles have no separate resource type for it. */
const KEY = { type: 'provisioner_daemon', name: 'provisioner key' } as const;
/** People who may read the daemons and the queue may read the keys. Plain members may read none of them. */
const READABLE = { type: 'provisioner_jobs' } as const;

/** Creates a key for daemons of this organization. Only this response contains its secret. */
export async function createKey(
  ctx: Ctx,
  organization: string,
  input: CreateProvisionerKeyRequest,
): Promise<CreateProvisionerKeyResponse> {
  const place = await findInOrganization(ctx, 'create', KEY, organization);
  const { organizationId } = place;
  const name = checkedName(input.name);
  const tags = input.tags ?? {};
  // rejects tags that a daemon could not connect with
  mutateTags(NIL_UUID, tags);
  const secret = randomText(SECRET_LENGTH);
  try {
    await beginInTurn(ctx, async (tx) => {
      await requireProvisionerKeyRoom(ctx, tx, organizationId);
      const id = await insertProvisionerKey(tx, place, { name, hashed_secret: sha256(secret), tags });
      await audit(ctx, tx, {
        resourceType: 'provisioner_key',
        resourceId: id,
        target: name,
        action: 'create',
        organizationId,
        status: 201,
        after: { name, tags, hashed_secret: 'hidden' },
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
 * Lists the recently seen daemons by credential. The built-in daemons and the pre-shared key belong to the default
 * organization only. Users can run daemons in each.
 */
export async function listKeyDaemons(ctx: Ctx, organization: string): Promise<ProvisionerKeyDaemons[]> {
  const place = await findInOrganization(ctx, 'read', READABLE, organization);
  const found = place.organization;
  const names = found.is_default ? Object.keys(RESERVED) : ['user-auth'];
  const reserved = names.map((name) => ({
    id: ownValue(RESERVED, name)!,
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
 * Deletes a key by name. Its daemons are notified in the same transaction: they cancel their jobs and take no more. The
 * rows of daemons with a job stay, so that the job still names its daemon. The purge removes them later.
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
      before: row,
    });
  });
}

/** The key that a daemon has, by its secret in the header. */
export async function keyOfHeaders(ctx: Ctx, headers: IncomingHttpHeaders): Promise<ProvisionerKey> {
  const secret = headers['coder-provisioner-daemon-key'];
  const unauthenticated = (detail: string) =>
    new AppError('unauthenticated', 'Provisioner daemon authentication failed.', { detail });
  if (typeof secret !== 'string' || secret === '') throw unauthenticated('Send a provisioner key.');
  if (headers['coder-provisioner-daemon-psk']) {
    throw new AppError('invalid', 'Send either a provisioner key or a pre-shared key, not both.');
  }
  if (secret.length !== SECRET_LENGTH) {
    throw new AppError('invalid', `The provisioner key must have ${SECRET_LENGTH} characters.`);
  }
  const row = await provisionerKeyBySecret(ctx.sql, sha256(secret));
  if (!row) throw unauthenticated('The provisioner key does not exist.');
  return toKey(row);
}
