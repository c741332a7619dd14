// Keys that could not be deleted when their provisioner was: the server did not answer, or the token was gone. They are
// listed in a ConfigMap in the operator's namespace, which outlives the operator, and the operator tries again from time to
// time. Each entry has what the provisioner said about its server, instead of a URL and a Secret: the operator looks for
// the CoderControlPlane and the token each time, so that it finds them again when someone has restored them, and so that a
// token never goes to another server. After some time the operator gives up, and an event names the key.
import type { Clock, Logger } from '@ropewalk/kit';
import type { Provisioner } from '../crd/provisioner.ts';
import { isConflict, isNotFound, type KubeClient } from '../kube/client.ts';
import { CONFIG_MAPS, type KubeObject, SECRETS } from '../kube/types.ts';
import { sha256 } from '../machinery/apply.ts';
import { rejectionOf } from '../machinery/conditions.ts';
import type { Report } from '../machinery/events.ts';
import { deleteKeyOf, type MovedKeys } from './delete-key.ts';
import type { RetiredKey } from './keys.ts';
import { clientFor, problemOf } from './server.ts';
import { credentialsOf, type Finding, type Joining, resolveServer } from './target.ts';

const NAME = 'coder-operator-uncollected-keys';
/** How long it tries. */
export const GIVE_UP_DAYS = 30;
const GIVE_UP_MS = GIVE_UP_DAYS * 86_400_000;
/** How many keys it lists. A ConfigMap has a mebibyte. */
const MOST = 1_000;

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

interface UncollectedKey extends RetiredKey {
  /** The provisioner of the key, which no longer exists. */
  provisioner: Joining;
  /** When the deletion failed first. */
  since: string;
}

export interface UncollectedKeys {
  /** Lists a key. False if there are too many already, or if the API server rejects it, as in a namespace that is deleted. */
  add(key: RetiredKey, provisioner: Provisioner): Promise<boolean>;
  /** Tries to delete each key once. Returns how many remain. */
  collect(): Promise<number>;
}

export interface UncollectedOptions extends Finding {
  client: KubeClient;
  movedKeys: MovedKeys;
  report: Report;
  clock: Clock;
  log: Logger;
  /** The operator's namespace. */
  namespace: string;
}

export function createUncollectedKeys(options: UncollectedOptions): UncollectedKeys {
  const { client, lookup, movedKeys, report, clock, log, namespace } = options;
  const read = async (): Promise<ConfigMap | undefined> => {
    try {
      return await client.get<ConfigMap>(CONFIG_MAPS, namespace, NAME);
    } catch (err) {
      if (isNotFound(err)) return undefined;
      throw err;
    }
  };
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
  const failed = async (list: ConfigMap, id: string, key: UncollectedKey, err: unknown): Promise<boolean> => {
    const { name, url, organizationName: organization } = key;
    const { reason, message } = problemOf(err, { url, organization });
    if (clock.now().getTime() - Date.parse(key.since) < GIVE_UP_MS) {
      log.debug('could not collect a provisioner key', { name, reason, err: message });
      return true;
    }
    const text =
      `Gave up deleting the provisioner key "${name}" of the organization "${organization}" at ${url} after ` +
      `${GIVE_UP_DAYS} days (${reason}): ${message} Delete it on the server.`;
    log.warn('gave up collecting a provisioner key', { name, organization, url, reason, err: message });
    await report(CONFIG_MAPS, list, 'Warning', 'KeyNotDeleted', text);
    await change({ [id]: null });
    return false;
  };
  return {
    async add(key, { metadata, spec }) {
      const { url, controlPlaneRef, bootstrap, organizationName } = spec;
      const provisioner = {
        metadata: { namespace: metadata.namespace!, name: metadata.name },
        spec: { url, controlPlaneRef, bootstrap, organizationName },
      };
      const id = sha256({ ...key, provisioner }).slice(0, 32);
      const { data = {} } = (await read()) ?? {};
      if (data[id] !== undefined) return true;
      if (Object.keys(data).length >= MOST) return false;
      try {
        await change({ [id]: JSON.stringify({ ...key, provisioner, since: clock.now().toISOString() }) });
        return true;
      } catch (err) {
        if (rejectionOf(err)) return false;
        throw err;
      }
    },
    async collect() {
      const list = await read();
      let left = 0;
      for (const [id, text] of Object.entries(list?.data ?? {})) {
        const key = JSON.parse(text) as UncollectedKey;
        try {
          const { target } = await resolveServer(key.provisioner, options);
          await deleteKeyOf({ url: target.url, client: clientFor(target) }, key, movedKeys);
          await change({ [id]: null });
          log.info('collected a provisioner key', { name: key.name, organization: key.organizationName, url: key.url });
        } catch (err) {
          // someone may replace the token
          const credentials = await credentialsOf(key.provisioner, options).catch(() => undefined);
          if (credentials) lookup.forget(SECRETS, credentials.namespace, credentials.name);
          if (await failed(list!, id, key, err)) left++;
        }
      }
      return left;
    },
  };
}
