import { type Clock, systemClock } from '@platform/kit';
import type { KubeClient } from './client.ts';
import type { KubeObject, Resource } from './types.ts';

/** Reads objects that others own and that the operator does not watch. Many reconciles share one request. */
export interface Lookup {
  get<T extends KubeObject>(resource: Resource, namespace: string, name: string): Promise<T>;
  /** Forgets what was read, so that the next `get` reads it again. */
  forget(resource: Resource, namespace: string, name: string): void;
}

const KEPT_MS = 15_000;

export function createLookup(client: KubeClient, clock: Clock = systemClock): Lookup {
  const found = new Map<string, { at: number; object: Promise<KubeObject> }>();
  const keyOf = (resource: Resource, namespace: string, name: string) => `${resource.plural}/${namespace}/${name}`;
  return {
    get<T extends KubeObject>(resource: Resource, namespace: string, name: string) {
      const key = keyOf(resource, namespace, name);
      const at = clock.monotonic();
      const known = found.get(key);
      if (known && at - known.at < KEPT_MS) return known.object as Promise<T>;
      for (const [old, entry] of found) if (at - entry.at >= KEPT_MS) found.delete(old);
      const object = client.get<T>(resource, namespace, name);
      found.set(key, { at, object });
      object.catch(() => found.delete(key));
      return object;
    },
    forget: (resource, namespace, name) => void found.delete(keyOf(resource, namespace, name)),
  };
}
