import type { KubeObject, ObjectMeta, OwnerReference, Resource } from '../kube/types.ts';
import { ownedBy } from './apply.ts';

/** The informers watch objects with this label only. */
export const MANAGED = { 'app.kubernetes.io/managed-by': 'coder-operator' } as const;

/**
 * How objects of one kind of custom resource are labeled. The labels name the owner, because an object in another
 * namespace cannot have an owner reference.
 */
export interface Ownership<Owner extends KubeObject> {
  resource: Resource;
  /** The label with the name of the owner. */
  nameLabel: string;
  /** The labels of each object that belongs to an owner. */
  labelsOf(owner: Owner): Record<string, string>;
  /** The labels that select an owner's pods. Kubernetes never lets them change. */
  selectorOf(owner: Owner): Record<string, string>;
  /** The key of the owner of an object. Undefined for another kind of owner. */
  ownerOf(object: KubeObject): string | undefined;
  /** The metadata of an object in the owner's namespace, which Kubernetes deletes after its owner. */
  metaOf(owner: Owner, name: string): ObjectMeta & { ownerReferences: OwnerReference[] };
}

export function ownership<Owner extends KubeObject>(resource: Resource, kind: string): Ownership<Owner> {
  const nameLabel = `coder.com/${kind}`;
  const namespaceLabel = `coder.com/${kind}-namespace`;
  const app = { 'app.kubernetes.io/name': `coder-${kind}` };
  const labelsOf = ({ metadata }: KubeObject) => ({
    ...MANAGED,
    ...app,
    [nameLabel]: metadata.name,
    [namespaceLabel]: metadata.namespace!,
  });
  return {
    resource,
    nameLabel,
    labelsOf,
    selectorOf: ({ metadata }) => ({ ...app, [nameLabel]: metadata.name }),
    ownerOf({ metadata: { labels = {} } }) {
      const name = labels[nameLabel];
      const namespace = labels[namespaceLabel];
      return name && namespace ? `${namespace}/${name}` : undefined;
    },
    metaOf: (owner, name) => ({
      name,
      namespace: owner.metadata.namespace!,
      labels: labelsOf(owner),
      ownerReferences: [ownedBy(resource, owner)],
    }),
  };
}
