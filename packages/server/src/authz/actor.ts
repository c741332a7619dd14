import { hash } from 'node:crypto';
import type { UserWithAccess, WorkspaceProxyRow } from '../db/rows.ts';
import {
  organizationRoles,
  ownerWithoutAccess,
  type Role,
  type ShareableOwners,
  sharingRoles,
  siteRoles,
} from './policy.ts';
import type { TokenScope } from './scope.ts';

/** A signed-in person. */
export interface UserActor {
  kind: 'user';
  id: string;
  username: string;
  email: string;
  /** Site roles. `member` is implied. */
  roles: string[];
  /** Organization id → roles in it. `organization-member` is implied. */
  organizations: Map<string, string[]>;
  /** Ids of the person's groups, without the group Everyone of each organization. */
  groups: ReadonlySet<string>;
  /** The roles of these names. */
  held: HeldRoles;
  /** The limits of the token. */
  scope: TokenScope;
  apiKeyId: string;
  /** The account when the session was verified, a few seconds ago at most. An event announces changes. */
  account?: UserWithAccess;
}

/** What a person's roles grant. Built once for a session, since each request asks several times. */
export interface HeldRoles {
  /** For the whole site: site roles, and organization roles that also grant something there. */
  site: readonly Role[];
  /** By organization id. */
  org: ReadonlyMap<string, readonly Role[]>;
  /** Whether workspaces can be shared on this server. */
  sharing: boolean;
}

/** Custom roles, by organization id. */
export type CustomRoles = Readonly<Record<string, readonly Role[]>>;

/**
 * Finds a person's roles. Everyone has the site's member role, and members of an organization have its member role and its
 * default roles.
 */
export function heldRoles(names: {
  site: readonly string[];
  organizations: Readonly<Record<string, readonly string[]>>;
  custom: CustomRoles;
  /** The roles that all members of an organization have, by its id. */
  defaults: Readonly<Record<string, readonly string[]>>;
  /** Whether owners may open shells and apps in everybody's workspaces. */
  ownersReach: boolean;
  /** Whose workspaces can be shared, by organization id. Undefined: nobody's on this server. */
  shareable: Readonly<Record<string, ShareableOwners>> | undefined;
  isServiceAccount?: boolean;
}): HeldRoles {
  const site = [...names.site, 'member'].flatMap((name) =>
    name === 'owner' && !names.ownersReach ? ownerWithoutAccess : (siteRoles[name] ?? []),
  );
  const org = new Map<string, Role[]>();
  for (const [id, given] of Object.entries(names.organizations)) {
    const all = new Set([...given, ...(names.defaults[id] ?? []), 'organization-member']);
    const builtIn = [...all].flatMap((name) => organizationRoles[name] ?? []);
    const owners = names.shareable?.[id] ?? 'none';
    const sharing = sharingRoles[owners === 'service_accounts' && names.isServiceAccount ? 'everyone' : owners] ?? [];
    const custom = (names.custom[id] ?? []).filter(({ name }) => given.includes(name));
    org.set(id, [...builtIn, ...custom].concat(sharing));
    for (const role of builtIn) {
      if (role.site) site.push({ name: role.name, displayName: role.displayName, site: role.site });
    }
  }
  return { site, org, sharing: names.shareable !== undefined };
}

const rights = new WeakMap<UserActor, string>();

/** A short text that differs for people and for their rights. Requests of one session share the actor. */
export function rightsOf(actor: UserActor): string {
  let text = rights.get(actor);
  if (text === undefined) {
    const { id, scope, groups, held } = actor;
    text = hash(
      'sha256',
      JSON.stringify([id, scope.names, scope.allowList, [...groups], held.site, [...held.org]]),
      'base64',
    );
    rights.set(actor, text);
  }
  return text;
}

/** The Kubernetes operator, which has a token of its own (--operator-token). Its rights end at its organization. */
export interface OperatorActor {
  kind: 'operator';
  organizationId: string;
}

/** A workspace proxy. It has no rights to objects. Its own routes decide with the rights of the visitor that it names. */
export interface ProxyActor {
  kind: 'proxy';
  proxy: WorkspaceProxyRow;
}

/** The actor of a request. `system` is the server itself (daemons, background tasks), never a request. */
export type Actor = UserActor | OperatorActor | ProxyActor | { kind: 'system'; name: string } | { kind: 'none' };
