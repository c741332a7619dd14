// Deletes provisioner keys. A token is for its own server only: a person who can write the URL of a key must not receive a token of
// another server. The URL of a server may change, though. Then the id of a key shows that the server is still the same.
import { ApiError, type Client } from '@ropewalk/client';
import type { RetiredKey } from './keys.ts';
import { ServerProblem, type Target } from './server.ts';

/** The reason of a ServerProblem: the operator has no token for the server of a key. */
export const OTHER_SERVER = 'OtherServer';

/**
 * The ids of keys that were deleted at another URL than their own. A deletion may be repeated, and without the key nothing
 * shows any more that its server is the same.
 */
export type MovedKeys = Set<string>;

/**
 * Deletes a key, if it still exists and no daemon that `isUsed` knows of uses it. Returns whether it is gone.
 * @throws ServerProblem with `OTHER_SERVER` if the key is not of this server.
 */
export async function deleteKeyOf(
  { url, client }: { url: string; client: Client },
  key: RetiredKey,
  moved: MovedKeys,
  isUsed: () => boolean = () => false,
): Promise<boolean> {
  const { id } = key;
  if (id && moved.has(id)) return true;
  if (!(await isOnServer({ url, client }, key))) throw otherServer({ url }, key);
  if (isUsed()) return false;
  await deleteKey(client, key);
  if (id && key.url !== url) moved.add(id);
  return true;
}

export function otherServer({ url }: Pick<Target, 'url'>, key: RetiredKey): ServerProblem {
  const message = `The operator has a token for ${url}, not for ${key.url}.`;
  return new ServerProblem('ControlPlaneReady', OTHER_SERVER, message);
}

/** Whether a key was created at this URL, or is on this server, whose URL was another one then. */
async function isOnServer({ url, client }: { url: string; client: Client }, key: RetiredKey): Promise<boolean> {
  if (key.url === url) return true;
  if (!key.id) return false;
  try {
    const keys = await client.call('GET /organizations/{organization}/provisionerkeys', {
      params: { organization: key.organizationName },
    });
    return keys.some(({ id, name }) => id === key.id && name === key.name);
  } catch (err) {
    // this server does not have the organization of the key
    if (err instanceof ApiError && (err.status === 403 || err.status === 404)) return false;
    throw err;
  }
}

/** Deletes a key on its server, if it still exists there. */
export async function deleteKey(client: Client, { name, organizationName }: RetiredKey): Promise<void> {
  try {
    await client.call('DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}', {
      params: { organization: organizationName, provisionerkey: name },
    });
  } catch (err) {
    if (!(err instanceof ApiError && err.status === 404)) throw err;
  }
}
