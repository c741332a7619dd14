// The limits of a token. A person who uses a token may do what their roles permit, what one of the token's scopes
// grants, and only to objects in the token's allow list. `may` and `readScope` apply them, so that they are in force
// for requests, streams and lists alike.

import { ALLOW_ALL, grantsOfScopes } from '@ropewalk/contract/token-scopes';
import { type Action, type Grants, grants, type Resource } from './policy.ts';

/** What a token is limited to. */
export interface TokenScope {
  /** Names of scopes, such as `workspace:read`. */
  readonly names: readonly string[];
  /** Entries `type:id`, `type:*`, `*:id` and `*:*`. */
  readonly allowList: readonly string[];
  /** What the scopes grant together. */
  readonly grants: Grants;
}

export function tokenScope(names: readonly string[], allowList: readonly string[] = [ALLOW_ALL]): TokenScope {
  return { names, allowList, grants: grantsOfScopes(names) };
}

/** No limits: a session, or a token that may do all that its owner may do. */
export const FULL_SCOPE: TokenScope = tokenScope(['coder:all']);

export const isFull = ({ grants: table, allowList }: TokenScope): boolean =>
  table['*'] === '*' && allowList.includes(ALLOW_ALL);

/** Whether a token only opens apps. It may not even read the account of its owner, as before there were other scopes. */
export const isAppsOnly = ({ names }: TokenScope): boolean =>
  names.every((name) => name === 'coder:application_connect');

/** Dormant and unclaimed workspaces are separate types for roles. For a token they are workspaces. */
const typeInScopes = (type: Resource): Resource =>
  type === 'workspace_dormant' || type === 'prebuilt_workspace' ? 'workspace' : type;

/** The ids of a type that an allow list contains. Null: all. */
export function allowedIds({ allowList }: TokenScope, type: Resource): string[] | null {
  const wanted = typeInScopes(type);
  const ids: string[] = [];
  for (const entry of allowList) {
    const [of, id] = entry.split(':') as [string, string];
    if (of !== '*' && of !== wanted) continue;
    if (id === '*') return null;
    ids.push(id);
  }
  return ids;
}

/**
 * Whether a token with this scope may do this. An object without an id, such as a new one or all of a type, needs an
 * entry for the whole type.
 */
export function inScope(scope: TokenScope, action: Action, type: Resource, id: string | undefined): boolean {
  if (!grants(scope.grants, action, typeInScopes(type))) return false;
  const ids = allowedIds(scope, type);
  return ids === null || (id !== undefined && ids.includes(id));
}

/** Whether everything that `wanted` permits is permitted by `maker`. */
export function covers(maker: TokenScope, wanted: TokenScope): boolean {
  if (isFull(maker)) return true;
  const granted = Object.entries(wanted.grants).every(([type, actions]) => {
    const has = maker.grants[type as Resource] ?? maker.grants['*'];
    if (has === '*') return true;
    return has !== undefined && actions !== '*' && actions.every((action) => has.includes(action));
  });
  return granted && wanted.allowList.every((entry) => entryIn(maker.allowList, entry));
}

const entryIn = (list: readonly string[], entry: string): boolean => {
  const [type, id] = entry.split(':');
  return [entry, ALLOW_ALL, `${type}:*`, `*:${id}`].some((wider) => list.includes(wider));
};
