// An informer keeps a local copy of the objects of one kind, so that reconcilers read without requests. It lists once,
// then watches for changes from that list's resource version on. Bookmarks move that version forward while nothing
// changes. A watch that ends is opened again where it stopped. If the API server no longer has that version (410
// Expired), the informer lists again and reports the differences.
import { backoff, type Logger, RECONNECT } from '@ropewalk/kit';
import { isExpired, type KubeClient, KubeError, type Scope } from '../kube/client.ts';
import type { KubeObject, Resource } from '../kube/types.ts';

/** A watch that ends sooner is not opened again immediately. */
const SHORT_MS = 1_000;
/** How many deleted objects it remembers. */
const REMEMBERED = 1_000;

export const keyOf = ({ metadata: { namespace = '', name } }: KubeObject): string => `${namespace}/${name}`;

export interface InformerOptions<T extends KubeObject> {
  client: KubeClient;
  resource: Resource;
  scope?: Scope;
  log: Logger;
  /** Called after the local copy has changed. `old` is absent for a new object, `now` for a deleted one. */
  onChange(now: T | undefined, old: T | undefined): void;
  /** Keeps only a part of each object in memory. */
  keep?: (object: T) => T;
}

export interface Informer<T extends KubeObject> {
  get(namespace: string, name: string): T | undefined;
  all(): Iterable<T>;
  /** Resolves after the first list. */
  readonly synced: Promise<void>;
  /** Stores the answer of a write right away, so that the next reconcile does not repeat it. */
  store(object: T): void;
  stop(): Promise<void>;
}

export function startInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  const { client, resource, scope = {}, log, onChange, keep = (object) => object } = options;
  const objects = new Map<string, T>();
  const aborter = new AbortController();
  const first = Promise.withResolvers<void>();
  /** Objects that were deleted while the answer to a write to them was still under way. */
  const deleted = new Set<string | undefined>();
  let resourceVersion = '';

  const put = (object: T) => {
    const key = keyOf(object);
    const old = objects.get(key);
    if (old?.metadata.resourceVersion === object.metadata.resourceVersion) return;
    if (isOlder(object, old)) return;
    const kept = keep(object);
    objects.set(key, kept);
    onChange(kept, old);
  };
  const remove = (key: string) => {
    const old = objects.get(key);
    if (!objects.delete(key)) return;
    deleted.add(old?.metadata.uid);
    if (deleted.size > REMEMBERED) deleted.delete(deleted.keys().next().value);
    onChange(undefined, old);
  };
  const list = async () => {
    const found = await client.list<T>(resource, scope, aborter.signal);
    const present = new Set(found.items.map(keyOf));
    for (const key of [...objects.keys()]) if (!present.has(key)) remove(key);
    for (const item of found.items) put(item);
    resourceVersion = found.resourceVersion;
    first.resolve();
  };
  const watch = async () => {
    for await (const event of client.watch<T>(resource, scope, resourceVersion, aborter.signal)) {
      if (event.type === 'ERROR') throw new KubeError(event.object.code, event.object.reason, event.object.message);
      resourceVersion = event.object.metadata.resourceVersion!;
      if (event.type === 'BOOKMARK') continue;
      if (event.type === 'DELETED') remove(keyOf(event.object));
      else put(event.object);
    }
  };

  const run = async () => {
    const waits = backoff({ baseMs: 100, ...RECONNECT });
    while (!aborter.signal.aborted) {
      try {
        if (resourceVersion === '') await list();
        const began = performance.now();
        await watch();
        // a proxy may end every watch at the same time
        if (performance.now() - began < SHORT_MS) await pause(waits.next(), aborter.signal);
        else waits.reset();
      } catch (err) {
        if (aborter.signal.aborted) return;
        if (isExpired(err)) resourceVersion = '';
        else log.warn('watch failed', { kind: resource.kind, err });
        await pause(waits.next(), aborter.signal);
      }
    }
  };
  const running = run();
  return {
    get: (namespace, name) => objects.get(`${namespace}/${name}`),
    all: () => objects.values(),
    synced: first.promise,
    store: (object) => {
      if (!deleted.has(object.metadata.uid)) put(object);
    },
    async stop() {
      aborter.abort();
      await running;
    },
  };
}

/**
 * Whether a watch delivers a state from before a stored write. Resource versions of one cluster are increasing numbers
 * (KEP-5504), and a recreated object has another uid.
 */
function isOlder(object: KubeObject, old: KubeObject | undefined): boolean {
  if (!old || old.metadata.uid !== object.metadata.uid) return false;
  return Number(object.metadata.resourceVersion) < Number(old.metadata.resourceVersion);
}

/** Waits without an error when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
