/**
 * Keys of newer clients that restrict something, in a way that this server cannot enforce yet. Ignoring one would create
 * more access than the client asked for, so the request is rejected. Values that restrict nothing are ignored, as is every
 * other key that the contract does not have. The keys are those that upstream has added since 2.25.
 */
import type { RouteKey } from '@platform/contract';
import { AppError } from '@platform/kit';

/** Whether a value restricts nothing. Absent and null values never restrict. */
type RestrictsNothing = (value: unknown) => boolean;

const isList = (value: unknown, item: RestrictsNothing): boolean => Array.isArray(value) && value.every(item);

/** The names of the scope that permits everything. */
const isFullScope: RestrictsNothing = (value) => value === 'all' || value === 'coder:all' || value === '';

/** All objects of all types, as text and as object. */
const isEverything: RestrictsNothing = (value) => {
  if (typeof value !== 'object' || value === null) return value === '*:*' || value === '*';
  const { type, id } = value as { type?: unknown; id?: unknown };
  return type === '*' && id === '*';
};

/** By route and key of the body. */
export const UNENFORCED: { readonly [K in RouteKey]?: Readonly<Record<string, RestrictsNothing>> } = {
  'POST /users/{user}/keys/tokens': {
    scopes: (value) => isList(value, isFullScope),
    allow_list: (value) => isList(value, isEverything),
  },
  // nobody can sign in to such an account
  'POST /users': { service_account: (value) => value === false },
  // permissions that members have on their own objects. Negated ones take some away
  'POST /organizations/{organization}/members/roles': { organization_member_permissions: denyNothing },
  'PUT /organizations/{organization}/members/roles': { organization_member_permissions: denyNothing },
  // it replaces the rights that every member has
  'PATCH /organizations/{organization}': { default_org_member_roles: () => false },
};

function denyNothing(value: unknown): boolean {
  return isList(value, (each) => typeof each === 'object' && each !== null && !(each as { negate?: unknown }).negate);
}

/** @throws AppError `invalid` if the body has a key that restricts something and that this server would ignore */
export function checkUnenforced(key: RouteKey, body: unknown): void {
  const keys = UNENFORCED[key];
  if (!keys || typeof body !== 'object' || body === null) return;
  const found = Object.entries(keys).flatMap(([name, restrictsNothing]) => {
    const value = (body as Record<string, unknown>)[name];
    return value === undefined || value === null || restrictsNothing(value) ? [] : [name];
  });
  if (found.length === 0) return;
  throw new AppError('invalid', `This server cannot enforce ${found.map((name) => `"${name}"`).join(' and ')}.`, {
    detail: 'Leave it out. The result then has no such restriction.',
    validations: found.map((field) => ({ field, detail: 'is a restriction that this server does not support' })),
  });
}
