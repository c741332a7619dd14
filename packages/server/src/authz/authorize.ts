import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { ALLOW_ALL } from '@ropewalk/contract/token-scopes';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { Actor, CustomRoles, UserActor } from './actor.ts';
import { notFound } from './not-found.ts';
import {
  type Action,
  assignable,
  grants,
  listed,
  operatorScope,
  organizationRoles,
  type Resource,
  type Role,
  siteRoles,
} from './policy.ts';
import { allowedIds, inScope, isAppsOnly, isFull } from './scope.ts';

/** The object of an action, with the fields that the policy uses. */
export interface AuthzObject {
  type: Resource;
  /**
   * The object's id, which the allow list of a token may contain. Absent for a new object and for all of a type. Users
   * and organizations need none: theirs is `ownerId` or `organizationId`.
   */
  id?: string;
  organizationId?: string;
  ownerId?: string;
  /**
   * For templates, groups and workspaces: user or group id → `use` or `admin`. The group Everyone has the organization's
   * id.
   */
  acl?: { users: Record<string, string>; groups: Record<string, string> };
  /** The name of the object in error messages. Default: the resource type. */
  name?: string;
}

/** The actor's roles for an object of an organization, or of none. */
function rolesOf({ held }: UserActor, organizationId?: string): { site: readonly Role[]; org: readonly Role[] } {
  return { site: held.site, org: (organizationId && held.org.get(organizationId)) || NO_ROLES };
}
const NO_ROLES: readonly Role[] = [];

function aclGrants(actor: UserActor, action: Action, object: AuthzObject): boolean {
  const { acl, organizationId } = object;
  if (!acl || !organizationId || !actor.organizations.has(organizationId)) return false;
  const levels = object.type === 'workspace' && !actor.held.sharing ? undefined : listed[object.type];
  if (!levels) return false;
  const enough = (level: string | undefined) => {
    const given = level === undefined ? undefined : ownValue(levels, level);
    return given === '*' || (given?.includes(action) ?? false);
  };
  if (enough(acl.users[actor.id])) return true;
  // a list is short, and a person may be in many groups
  for (const id in acl.groups) {
    if (enough(acl.groups[id]) && (id === organizationId || actor.groups.has(id))) return true;
  }
  return false;
}

/**
 * Whether the token of the actor permits this, whatever the roles. Every token may read the account of its owner, which
 * paths such as `/users/me/keys` name.
 */
export function scopePermits({ scope, id: self }: UserActor, action: Action, object: AuthzObject): boolean {
  if (isFull(scope)) return true;
  const { type, id, organizationId, ownerId } = object;
  const own = type === 'user' && action === 'read' && ownerId === self;
  if (own && !isAppsOnly(scope)) return true;
  return inScope(
    scope,
    action,
    type,
    id ?? (type === 'organization' ? organizationId : type === 'user' ? ownerId : id),
  );
}

/** Whether the policy lets this actor do this. Pure: the same arguments always give the same result. */
export function may(actor: Actor, action: Action, object: AuthzObject): boolean {
  if (actor.kind === 'system') return true;
  if (actor.kind === 'none' || actor.kind === 'proxy') return false;
  if (actor.kind === 'operator')
    return object.organizationId === actor.organizationId && grants(operatorScope, action, object.type);
  if (!scopePermits(actor, action, object)) return false;
  const { site, org } = rolesOf(actor, object.organizationId);
  if ([...site, ...org].some((role) => grants(role.deny, action, object.type)) && !actor.roles.includes('owner')) {
    return false;
  }
  if (site.some((role) => grants(role.site, action, object.type))) return true;
  if (org.some((role) => grants(role.org, action, object.type))) return true;
  // unclaimed workspaces are also their own objects, which the people who look after templates may change
  if (object.type === 'workspace' && object.ownerId === PREBUILDS_USER_ID)
    return may(actor, action, { ...object, type: 'prebuilt_workspace' });
  if (object.ownerId === actor.id) {
    const own = object.organizationId ? [...org, ...site] : site;
    if ((!object.organizationId || org.length > 0) && own.some((role) => grants(role.user, action, object.type)))
      return true;
  }
  return aclGrants(actor, action, object);
}

/** Whether the policy lets this actor do this to some object of a type: in the deployment, or in one of their organizations. */
export function mayAnywhere(actor: Actor, action: Action, object: Omit<AuthzObject, 'organizationId'>): boolean {
  if (may(actor, action, object)) return true;
  if (actor.kind !== 'user') return false;
  return [...actor.organizations.keys()].some((organizationId) => may(actor, action, { ...object, organizationId }));
}

declare const allowed: unique symbol;

/**
 * Proof that the policy allowed the action `A` on `Subject`. Only `authorize` and `allow` create one. Every function
 * that writes to the database takes one, so that an unauthorized write does not compile. A union of actions proves one
 * of them, without saying which. An intersection of proofs proves each.
 */
export type Allowed<A extends Action, Subject> = A extends Action
  ? Subject & { readonly [allowed]: { readonly [K in A]: true } }
  : never;

/** How a sentence says an action that is not a verb, before "this workspace". The others are verbs. */
const SPOKEN: Partial<Record<Action, string>> = {
  application_connect: 'connect to apps of',
  create_agent: 'add agents to',
  delete_agent: 'delete agents of',
  read_personal: 'read personal settings of',
  ssh: 'connect by SSH to',
  update_personal: 'change personal settings of',
  view_insights: 'view insights of',
};

/**
 * Throws if the policy does not allow the action: `not_found` if the actor may not even read the object, so that its
 * existence stays unknown, otherwise `forbidden`. Returns the object as a proof, for writes that need no row, such as
 * creating.
 */
export function authorize<A extends Action, const O extends AuthzObject>(
  { actor }: { actor: Actor },
  action: A,
  object: O,
): Allowed<A, O> {
  if (may(actor, action, object)) return object as Allowed<A, O>;
  const what = object.name ?? object.type.replaceAll('_', ' ');
  if (action !== 'create' && !may(actor, 'read', object)) {
    throw notFound();
  }
  throw new AppError('forbidden', 'Forbidden.', { detail: `You may not ${SPOKEN[action] ?? action} this ${what}.` });
}

/** Throws like `authorize`, and returns the row that `object` describes as a proof. */
export function allow<A extends Action, Row extends object>(
  ctx: { actor: Actor },
  action: A,
  row: Row,
  object: AuthzObject,
): Allowed<A, Row> {
  authorize(ctx, action, object);
  return row as Allowed<A, Row>;
}

/** Whether the actor has every permission of an organization role in the whole organization. */
export function holdsAll(actor: Actor, { org = {} }: Pick<Role, 'org'>, organizationId: string): boolean {
  return Object.entries(org).every(([type, actions]) =>
    (actions as readonly Action[]).every((action) => may(actor, action, { type: type as Resource, organizationId })),
  );
}

/**
 * Whether the actor may assign or remove this role: the policy allows assigning, and one of the actor's roles may
 * assign this one. A custom role may be assigned by people who have all its permissions.
 */
export function mayAssign(actor: Actor, role: Role | undefined, organizationId?: string): boolean {
  if (actor.kind === 'system') return true;
  if (actor.kind !== 'user') return false;
  const type = organizationId ? 'assign_org_role' : 'assign_role';
  if (!role || !may(actor, 'assign', { type, ...(organizationId ? { organizationId } : {}) })) return false;
  if (organizationId && !Object.hasOwn(organizationRoles, role.name)) return holdsAll(actor, role, organizationId);
  const held = rolesOf(actor, organizationId);
  return [...held.site, ...held.org].some(({ name }) => assignable[name]?.includes(role.name));
}

declare const outranked: unique symbol;

/**
 * Proof that a person has no role above the actor's. `authorizeOver` creates one, and changes of an account take it.
 */
export type Outranked<Person> = Person & { readonly [outranked]: true };

/** Throws if the account has a role above the actor's: a new password would give the actor that role. */
export function authorizeOver<
  P extends {
    id: string;
    rbac_roles: string[];
    organizations: Record<string, string[]>;
    custom_roles: CustomRoles;
    default_roles: Record<string, string[]>;
  },
>({ actor }: { actor: Actor }, person: P): Outranked<P> {
  if (actor.kind === 'user' && actor.id === person.id) return person as Outranked<P>;
  const below =
    person.rbac_roles.every((name) => name === 'member' || mayAssign(actor, siteRoles[name])) &&
    Object.entries(person.organizations).every(([organizationId, names]) =>
      [...names, ...(person.default_roles[organizationId] ?? [])].every((name) => {
        if (name === 'organization-member') return true;
        const custom = person.custom_roles[organizationId]?.find((role) => role.name === name);
        return mayAssign(actor, organizationRoles[name] ?? custom, organizationId);
      }),
    );
  if (below) return person as Outranked<P>;
  throw new AppError('forbidden', 'Forbidden.', { detail: 'This person has a role above yours.' });
}

/** The rows of an owned, organization-bound resource that an actor may read, for a list query. */
export interface ReadScope {
  all: boolean;
  organizationIds: string[];
  ownerId: string;
  /** Only these of them, which the allow list of a token contains. Null: all of them. */
  ids: string[] | null;
  /** Whose workspaces count that are shared with a person, or with a group of theirs. Absent: nobody's. */
  guest?: { userId: string; organizationIds: string[]; groupIds: string[] };
}

export function readScope(actor: Actor, type: Resource): ReadScope {
  if (actor.kind === 'system') return { all: true, organizationIds: [], ownerId: '', ids: null };
  const nothing = { all: false, organizationIds: [], ownerId: '', ids: null };
  if (actor.kind === 'none' || actor.kind === 'proxy') return nothing;
  if (actor.kind === 'operator')
    return { ...nothing, organizationIds: grants(operatorScope, 'read', type) ? [actor.organizationId] : [] };
  // a restricted token may not even read the person's own rows
  if (!grants(actor.scope.grants, 'read', type)) return nothing;
  // the query applies the allow list
  const unlisted = { ...actor, scope: { ...actor.scope, allowList: [ALLOW_ALL] } };
  return {
    all: may(unlisted, 'read', { type }),
    organizationIds: [...actor.organizations.keys()].filter((id) =>
      may(unlisted, 'read', { type, organizationId: id }),
    ),
    ownerId: actor.id,
    ids: allowedIds(actor.scope, type),
    ...(type === 'workspace' && actor.held.sharing ? { guest: guestOf(actor) } : {}),
  };
}

/** A person and their groups, with the group Everyone of each organization, as lists of people and groups name them. */
function guestOf({ id, organizations, groups }: UserActor): NonNullable<ReadScope['guest']> {
  const organizationIds = [...organizations.keys()];
  return { userId: id, organizationIds, groupIds: [...groups, ...organizationIds] };
}
