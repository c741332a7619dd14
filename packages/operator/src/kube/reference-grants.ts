// Consent of a namespace to references from another one, by the ReferenceGrants of the Gateway API.
import { isNotFound } from './client.ts';
import type { Lookup } from './lookup.ts';
import { type KubeObject, REFERENCE_GRANTS, type Resource } from './types.ts';

type Kind = Pick<Resource, 'group' | 'kind'>;

interface ReferenceGrant extends KubeObject {
  spec: {
    from: { group: string; kind: string; namespace: string }[];
    to: { group: string; kind: string; name?: string }[];
  };
}

const isOf = (kind: Kind) => (one: Kind) => one.group === kind.group && one.kind === kind.kind;

/**
 * Whether the namespace of `to` lets objects of this kind and namespace refer to it. Without a name in `to`, only a grant
 * for all objects of that kind counts.
 */
export async function isGranted(
  lookup: Lookup,
  from: { kind: Kind; namespace: string },
  to: { kind: Kind; namespace: string; name?: string },
): Promise<boolean> {
  const grants = await lookup.list<ReferenceGrant>(REFERENCE_GRANTS, to.namespace).catch((err) => {
    // a cluster without the Gateway API has no grants
    if (!isNotFound(err)) throw err;
    return [];
  });
  const granted = grants.some(
    ({ spec }) =>
      spec.from.filter(isOf(from.kind)).some(({ namespace }) => namespace === from.namespace) &&
      spec.to.filter(isOf(to.kind)).some(({ name }) => name === undefined || name === to.name),
  );
  // someone may create one now
  if (!granted) lookup.forget(REFERENCE_GRANTS, to.namespace);
  return granted;
}
