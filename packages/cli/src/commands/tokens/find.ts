import { ApiError, type Client } from '@ropewalk/client';
import type { APIKey } from '@ropewalk/contract';

/** Sends only the ID of a whole token, and never its secret. */
const withoutSecret = (token: string) => token.replace(/^(.{10})-.{22}$/, '$1');

/** Finds one of your tokens by its name, its ID or the token itself. */
export async function findToken(client: Client, text: string): Promise<APIKey> {
  const wanted = withoutSecret(text);
  const params = { user: 'me', keyname: wanted, keyid: wanted };
  return client.call('GET /users/{user}/keys/tokens/{keyname}', { params }).catch((err) => {
    if (!(err instanceof ApiError) || err.status >= 500 || err.status === 401) throw err;
    return client.call('GET /users/{user}/keys/{keyid}', { params });
  });
}
