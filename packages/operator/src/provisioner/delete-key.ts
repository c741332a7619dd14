import { ApiError, type Client } from '@platform/client';
import type { RetiredKey } from './keys.ts';

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
