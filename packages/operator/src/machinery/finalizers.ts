import type { KubeClient } from '../kube/client.ts';
import type { KubeObject, Resource } from '../kube/types.ts';

export const hasFinalizer = (object: KubeObject, finalizer: string): boolean =>
  object.metadata.finalizers?.includes(finalizer) ?? false;

/** Adds or removes a finalizer. Fails with a conflict if someone else changed the object since it was read. */
export async function setFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  object: T,
  finalizer: string,
  present: boolean,
): Promise<T> {
  const { namespace = '', name, resourceVersion, finalizers = [] } = object.metadata;
  const others = finalizers.filter((each) => each !== finalizer);
  return client.merge(
    resource,
    { namespace, name },
    { metadata: { resourceVersion, finalizers: present ? [...others, finalizer] : others } },
  );
}
