import { createHash } from 'node:crypto';
import { ignoreNotFound, isConflict, type KubeClient, KubeError } from '../kube/client.ts';
import { apiVersionOf, type KubeObject, type ObjectMeta, type OwnerReference, type Resource } from '../kube/types.ts';
import type { Informer } from './informer.ts';

/** The annotation with the checksum of the applied object. It shows that a field was removed since. */
export const APPLIED = 'coder.com/applied';

export function sha256(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex');
}

/** JSON with sorted keys: equal values give equal texts. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** Something else has an object with the name that the operator needs. */
export class NameTaken extends KubeError {
  constructor({ kind }: Resource, { name, namespace }: ObjectMeta, manager?: string) {
    const whose = manager === undefined ? 'it belongs to something else' : `"${manager}" manages it`;
    const message = `The ${kind} "${name}" in the namespace "${namespace}" exists already, and ${whose}.`;
    super(409, 'NameTaken', `${message} Delete it, or choose another name for this resource.`);
  }
}

/**
 * Applies an object, without a request if the live object already has every field of it. Returns the live object.
 * Changes by others to these fields are reverted. Fields that others added stay. Without a live object, one that something else
 * manages stays as it is. @throws NameTaken then.
 */
export async function applyChanges<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  desired: T,
  live: T | undefined,
): Promise<T> {
  const { metadata } = desired;
  const checksum = sha256(desired);
  const marked = {
    ...desired,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [APPLIED]: checksum } },
  };
  if (live && contains(live, marked)) return live;
  return live ? client.apply(resource, marked) : applyNew(client, resource, marked);
}

/** Applies an object that is wanted, and deletes the one of the cache with this name otherwise. */
export async function applyOrDelete<T extends KubeObject>(
  client: KubeClient,
  resource: Resource,
  cache: Pick<Informer<T>, 'get' | 'store'>,
  { namespace = '', name, wanted }: { namespace?: string | undefined; name: string; wanted: T | undefined },
): Promise<void> {
  const live = cache.get(namespace, name);
  if (wanted) cache.store(await applyChanges(client, resource, wanted, live));
  else if (live) await client.delete(resource, namespace, name).catch(ignoreNotFound);
}

async function applyNew<T extends KubeObject>(client: KubeClient, resource: Resource, desired: T): Promise<T> {
  try {
    return await client.applyGently(resource, desired);
  } catch (err) {
    if (!isConflict(err)) throw err;
    const { namespace, name } = desired.metadata;
    const { items } = await client.list<T>(resource, { namespace, fieldSelector: `metadata.name=${name}` });
    // another operator may have made it for the same resource
    if (items.some((found) => haveOneOwner(found, desired))) return client.apply(resource, desired);
    const [, manager] = /conflicts? with "([^"]+)"/.exec((err as KubeError).message) ?? [];
    if (manager === undefined) throw err;
    throw new NameTaken(resource, desired.metadata, manager);
  }
}

/**
 * Verifies that no object has this name, or one of the same owner. An apply without a conflict would otherwise add its fields
 * to an object of someone else, and Kubernetes would delete that after the owner. @throws NameTaken
 */
export async function requireOwn(
  client: KubeClient,
  resource: Resource,
  wanted: ObjectMeta & { ownerReferences: OwnerReference[] },
  live: KubeObject | undefined,
): Promise<void> {
  const found = live ?? (await client.get(resource, wanted.namespace!, wanted.name).catch(ignoreNotFound));
  if (found && !belongsTo(found.metadata, wanted)) throw new NameTaken(resource, wanted);
}

/** Labels decide without a controller, which a person may have removed. */
function belongsTo({ ownerReferences = [], labels = {} }: ObjectMeta, wanted: ObjectMeta): boolean {
  const controller = ownerReferences.find((owner) => owner.controller);
  if (controller) return wanted.ownerReferences?.some(({ uid }) => uid === controller.uid) ?? false;
  return Object.entries(wanted.labels ?? {}).every(([name, value]) => labels[name] === value);
}

function haveOneOwner(a: KubeObject, b: KubeObject): boolean {
  const owners = b.metadata.ownerReferences ?? [];
  return (a.metadata.ownerReferences ?? []).some(({ uid }) => owners.some((owner) => owner.uid === uid));
}

/** Whether `live` has every field of `desired`. An empty value equals an absent one, as in the API server's storage. */
export function contains(live: unknown, desired: unknown): boolean {
  if (isEmpty(desired)) return isEmpty(live) || typeof live === 'object';
  if (Array.isArray(desired)) {
    return (
      Array.isArray(live) && live.length === desired.length && desired.every((item, at) => contains(live[at], item))
    );
  }
  if (typeof desired === 'object') {
    if (live === null || typeof live !== 'object') return false;
    return Object.entries(desired!).every(([name, value]) => contains((live as Record<string, unknown>)[name], value));
  }
  return live === desired;
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || (typeof value === 'object' && Object.keys(value as object).length === 0)
  );
}

/** Makes `owner` the controller of an object, so that Kubernetes deletes the object after its owner. */
export function ownedBy(resource: Resource, owner: KubeObject): OwnerReference {
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid!,
    controller: true,
    blockOwnerDeletion: true,
  };
}
