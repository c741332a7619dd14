import type { V1PolicyRule } from '@kubernetes/client-node';
import { ignoreNotFound } from './kube/client.ts';
import type { Role, RoleBinding } from './kube/objects.ts';
import { isGranted } from './kube/reference-grants.ts';
import { type KubeObject, ROLE_BINDINGS, ROLES } from './kube/types.ts';
import { applyChanges } from './machinery/apply.ts';
import { NotPermitted } from './machinery/conditions.ts';
import { keyOf } from './machinery/informer.ts';
import type { Ownership } from './machinery/owned.ts';
import type { World } from './world.ts';

const EVERYTHING = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** The right of a service account to manage workspaces. */
export interface WorkspaceAccess<Owner extends KubeObject> {
  ownership: Ownership<Owner>;
  owner: Owner;
  account: string;
  /** The end of the names of its roles. */
  suffix: string;
  namespaces: readonly string[];
  enableDeployments: boolean;
  extraRules: readonly V1PolicyRule[];
}

/**
 * The name of the role and its binding. In another namespace it has a colon, which no name of a namespace or a resource
 * contains: with a hyphen, `c` of `a-b` and `b-c` of `a` would share one role.
 */
function roleName<Owner extends KubeObject>({ owner, suffix }: WorkspaceAccess<Owner>, namespace: string): string {
  const { name, namespace: home } = owner.metadata;
  return namespace === home ? `${name}-${suffix}` : `${home}:${name}-${suffix}`;
}

/** The Role and its binding in one namespace. In another one than the owner's they cannot have an owner. */
function permissions<Owner extends KubeObject>(
  access: WorkspaceAccess<Owner>,
  namespace: string,
): { role: Role; binding: RoleBinding } {
  const { ownership, owner, account, enableDeployments, extraRules } = access;
  const own = owner.metadata;
  const home = namespace === own.namespace;
  const name = roleName(access, namespace);
  const { ownerReferences, ...common } = ownership.metaOf(owner, name);
  const metadata = { ...common, namespace, ...(home ? { ownerReferences } : {}) };
  return {
    role: {
      metadata,
      rules: [
        { apiGroups: [''], resources: ['pods', 'persistentvolumeclaims'], verbs: EVERYTHING },
        ...(enableDeployments ? [{ apiGroups: ['apps'], resources: ['deployments'], verbs: EVERYTHING }] : []),
        ...extraRules,
      ],
    },
    binding: {
      metadata,
      subjects: [{ kind: 'ServiceAccount', name: account, namespace: own.namespace! }],
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    },
  };
}

/**
 * Applies the roles in their namespaces, and deletes those in others. The operator may do more than the person who wrote
 * the owner, so another namespace has to consent: with a ReferenceGrant for Roles.
 * @throws NotPermitted that names the namespaces without one, when the others have their roles
 */
export async function applyPermissions<Owner extends KubeObject>(
  world: World,
  access: WorkspaceAccess<Owner>,
): Promise<void> {
  const { client, caches, lookup } = world;
  const { ownership, owner, namespaces } = access;
  const from = { kind: ownership.resource, namespace: owner.metadata.namespace! };
  const permitted: string[] = [];
  for (const namespace of namespaces)
    if (namespace === from.namespace || (await isGranted(lookup, from, { kind: ROLES, namespace })))
      permitted.push(namespace);
  for (const place of permitted) {
    const { role, binding } = permissions(access, place);
    const { name } = role.metadata;
    caches.roles.store(await applyChanges(client, ROLES, role, caches.roles.get(place, name)));
    caches.bindings.store(await applyChanges(client, ROLE_BINDINGS, binding, caches.bindings.get(place, name)));
  }
  await removePermissions(world, ownership, owner, new Map(permitted.map((place) => [place, roleName(access, place)])));
  const others = namespaces.filter((namespace) => !permitted.includes(namespace));
  if (others.length === 0) return;
  const names = others.map((name) => JSON.stringify(name)).join(', ');
  throw new NotPermitted(
    `No ReferenceGrant lets ${from.kind.kind}s of ${JSON.stringify(from.namespace)} have Roles in ${names}. Create one there, from ${from.kind.group}/${from.kind.kind} to ${ROLES.group}/${ROLES.kind}.`,
  );
}

/** Deletes the permissions, but for those with the name that `kept` has for their namespace. */
export async function removePermissions<Owner extends KubeObject>(
  { client, caches }: World,
  { ownerOf }: Ownership<Owner>,
  owner: Owner,
  kept: ReadonlyMap<string, string> = new Map(),
): Promise<void> {
  const key = keyOf(owner);
  for (const [resource, cache] of [
    [ROLE_BINDINGS, caches.bindings],
    [ROLES, caches.roles],
  ] as const) {
    for (const object of [...cache.all()]) {
      const { namespace = '', name } = object.metadata;
      if (ownerOf(object) !== key || kept.get(namespace) === name) continue;
      await client.delete(resource, namespace, name).catch(ignoreNotFound);
    }
  }
}
