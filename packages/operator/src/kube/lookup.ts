import { type Clock, systemClock } from '@ropewalk/kit';
import type { KubeClient } from './client.ts';
import type { KubeObject, Resource } from './types.ts';

/** Reads objects that others own and that the operator does not watch. Many reconciles share one request. */
export interface Lookup {
  get<T extends KubeObject>(resource: Resource, namespace: string, name: string): Promise<T>;
  list<T extends KubeObject>(resource: Resource, namespace: string): Promise<T[]>;
  /** Forgets an object, or without a name a list, so that it is read again. */
  forget(resource: Resource, namespace: string, name?: string): void;
}

const KEPT_MS = 15_000;

export function createLookup(client: KubeClient, clock: Clock = systemClock): Lookup {
  const found = new Map<string, { at: number; answer: Promise<unknown> }>();
  const keyOf = (resource: Resource, namespace: string, name = '') => `${resource.plural}/${namespace}/${name}`;
  const once = <T>(key: string, read: () => Promise<T>): Promise<T> => {
    const at = clock.monotonic();
    const known = found.get(key);
    if (known && at - known.at < KEPT_MS) return known.answer as Promise<T>;
    for (const [old, entry] of found) if (at - entry.at >= KEPT_MS) found.delete(old);
    const answer = read();
    found.set(key, { at, answer });
    answer.catch(() => found.delete(key));
    return answer;
  };
  return {
    get: <T extends KubeObject>(resource: Resource, namespace: string, name: string) =>
      once(keyOf(resource, namespace, name), () => client.get<T>(resource, namespace, name)),
    list: <T extends KubeObject>(resource: Resource, namespace: string) =>
      once(keyOf(resource, namespace), async () => (await client.list<T>(resource, { namespace })).items),
    forget: (resource, namespace, name) => void found.delete(keyOf(resource, namespace, name)),
  };
}
