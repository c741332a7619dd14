// Keys that could not be deleted when their provisioner was: the server did not answer, or the token was gone. They are
// listed in a ConfigMap in the operator's namespace, and the operator tries again from time to time.
import { errorText, type Logger } from '@platform/kit';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import type { Lookup } from '../kube/lookup.ts';
import { CONFIG_MAPS, type KubeObject, SECRETS } from '../kube/types.ts';
import { sha256 } from '../machinery/apply.ts';
import { deleteKey } from './delete-key.ts';
import type { RetiredKey } from './keys.ts';
import { clientFor, problemOf } from './server.ts';
import { type Credentials, tokenOf } from './target.ts';

const NAME = 'coder-operator-uncollected-keys';

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

/** A key, and where a token to delete it with was. */
export interface UncollectedKey extends RetiredKey {
  credentials: Credentials;
}

export interface UncollectedKeys {
  add(key: UncollectedKey): Promise<void>;
  /** Tries to delete each key once. Returns how many remain. */
  collect(): Promise<number>;
}

export function createUncollectedKeys(
  { client, lookup, log }: { client: KubeClient; lookup: Lookup; log: Logger },
  namespace: string,
): UncollectedKeys {
  const change = async (patch: Record<string, string | null>): Promise<void> => {
    try {
      await client.merge(CONFIG_MAPS, { namespace, name: NAME }, { data: patch });
    } catch (err) {
      if (!isNotFound(err)) throw err;
      const data = Object.fromEntries(
        Object.entries(patch).filter((entry): entry is [string, string] => entry[1] !== null),
      );
      try {
        await client.create<ConfigMap>(CONFIG_MAPS, { metadata: { namespace, name: NAME }, data });
      } catch (again) {
        if (!isConflict(again)) throw again;
        await change(patch);
      }
    }
  };
  return {
    add: (key) => change({ [sha256(key).slice(0, 32)]: JSON.stringify(key) }),
    async collect() {
      let data: Record<string, string>;
      try {
        data = (await client.get<ConfigMap>(CONFIG_MAPS, namespace, NAME)).data ?? {};
      } catch (err) {
        if (isNotFound(err)) return 0;
        throw err;
      }
      let left = 0;
      for (const [id, text] of Object.entries(data)) {
        const key = JSON.parse(text) as UncollectedKey;
        try {
          const token = await tokenOf(lookup, key.credentials);
          await deleteKey(clientFor({ url: key.url, token }), key);
          await change({ [id]: null });
          log.info('collected a provisioner key', { name: key.name, organization: key.organizationName, url: key.url });
        } catch (err) {
          left++;
          // someone may replace the token
          lookup.forget(SECRETS, key.credentials.namespace, key.credentials.name);
          const { reason, message } = problemOf(err, { url: key.url, organization: key.organizationName });
          log.debug('could not collect a provisioner key', { name: key.name, reason, err: errorText(message) });
        }
      }
      return left;
    },
  };
}
