/**
 * Reads what SCIM clients send (RFC 7643 and 7644, and the habits of Okta and Entra ID). Attributes that this server does
 * not have are ignored. Names of attributes and operations ignore case.
 */

import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { ScimFilter } from '../../db/queries/scim.ts';

/** The attributes of an account that SCIM can set. Absent ones stay as they are. */
export interface ScimChange {
  userName?: string;
  email?: string;
  name?: string;
  externalId?: string;
  active?: boolean;
}

const invalid = (detail: string) => new AppError('invalid', detail);

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value of an attribute, whatever the case of its name. */
function field(object: unknown, name: string): unknown {
  if (!isObject(object)) return undefined;
  const key = Object.keys(object).find((each) => each.toLowerCase() === name.toLowerCase());
  return key === undefined ? undefined : object[key];
}

const text = (value: unknown): string | undefined => {
  if (typeof value !== 'string' || value.trim() === '') return undefined;
  if (value.length > 1_024) throw invalid('A text is longer than 1,024 characters.');
  return value.trim();
};

/** Entra ID sends booleans as texts. */
function boolean(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value;
  if (typeof value === 'string' && /^(true|false)$/i.test(value)) return /^true$/i.test(value);
  if (value === undefined || value === null) return undefined;
  throw invalid('The attribute "active" must be true or false.');
}

/** The primary address of a list of them, or the first one. */
function emailOf(value: unknown): string | undefined {
  if (typeof value === 'string') return text(value);
  const list = Array.isArray(value) ? value : isObject(value) ? [value] : [];
  const primary = list.find((each) => field(each, 'primary') === true || field(each, 'primary') === 'true');
  return text(field(primary ?? list[0], 'value'));
}

function nameOf(value: unknown, displayName: unknown): string | undefined {
  const parts = [text(field(value, 'givenName')), text(field(value, 'familyName'))].filter(Boolean).join(' ');
  return parts || text(field(value, 'formatted')) || text(displayName);
}

/** The attributes of a whole user resource. */
export function userOf(body: unknown): ScimChange {
  if (!isObject(body)) throw invalid('The body must be a SCIM user.');
  return defined({
    userName: text(field(body, 'userName')),
    email: emailOf(field(body, 'emails')),
    name: nameOf(field(body, 'name'), field(body, 'displayName')),
    externalId: text(field(body, 'externalId')),
    active: boolean(field(body, 'active')),
  });
}

function defined(change: { [K in keyof ScimChange]: ScimChange[K] | undefined }): ScimChange {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as ScimChange;
}

/** The parts of a full name, which operations may change one by one. */
interface NameParts {
  givenName?: string;
  familyName?: string;
}

const MAX_OPERATIONS = 1_000;

/** The attributes that a PATCH changes: a list of operations, or a partial user as Okta sends it. */
export function patchOf(body: unknown, fullName: string): ScimChange {
  const operations = field(body, 'Operations');
  if (operations === undefined) return userOf(body);
  if (!Array.isArray(operations) || operations.length > MAX_OPERATIONS) {
    throw invalid(`"Operations" must be a list of at most ${MAX_OPERATIONS} operations.`);
  }
  const change: ScimChange = {};
  const parts: NameParts = {};
  for (const operation of operations) {
    const op = String(field(operation, 'op') ?? '').toLowerCase();
    if (!['add', 'replace', 'remove'].includes(op)) {
      throw invalid(`Unknown operation ${JSON.stringify(field(operation, 'op'))}. Use add, replace or remove.`);
    }
    // an account has no attribute that it can be without
    if (op === 'remove') continue;
    const path = field(operation, 'path');
    const value = field(operation, 'value');
    if (typeof path === 'string' && path !== '') apply(change, parts, path, value);
    else if (isObject(value)) for (const [each, given] of Object.entries(value)) apply(change, parts, each, given);
    else throw invalid('An operation without a path needs an object as its value.');
  }
  if (parts.givenName !== undefined || parts.familyName !== undefined) {
    const [first = '', ...rest] = fullName.split(' ');
    change.name = [parts.givenName ?? first, parts.familyName ?? rest.join(' ')].filter(Boolean).join(' ');
  }
  return change;
}

/** Applies the value of one attribute. Others than these are ignored. */
function apply(change: ScimChange, parts: NameParts, path: string, value: unknown): void {
  const bare = path.replace(/^urn:ietf:params:scim:schemas:core:2\.0:User:/i, '');
  switch (bare.toLowerCase().replace(/^emails\[[^\]]*\](\.value)?$/, 'emails')) {
    case 'active':
      Object.assign(change, defined({ active: boolean(value) }));
      return;
    case 'username':
      Object.assign(change, defined({ userName: text(value) }));
      return;
    case 'externalid':
      Object.assign(change, defined({ externalId: text(value) }));
      return;
    case 'emails':
    case 'emails.value':
      Object.assign(change, defined({ email: emailOf(value) }));
      return;
    case 'displayname':
    case 'name.formatted':
      Object.assign(change, defined({ name: text(value) }));
      return;
    case 'name':
      Object.assign(change, defined({ name: nameOf(value, undefined) }));
      return;
    case 'name.givenname':
      parts.givenName = text(value) ?? '';
      return;
    case 'name.familyname':
      parts.familyName = text(value) ?? '';
      return;
  }
}

/** One comparison with `eq`, which is what provisioning clients send. */
export function filterOf(query: string | undefined): ScimFilter | undefined {
  if (query === undefined || query.trim() === '') return undefined;
  const [, name, quoted, word] =
    /^\s*([\w.:]+(?:\[[^\]]{0,200}\](?:\.value)?)?)\s+eq\s+(?:"((?:[^"\\]|\\.){0,1024})"|(true|false))\s*$/i.exec(
      query,
    ) ?? [];
  const bare = name?.toLowerCase().replace(/^emails(\[[^\]]*\])?(\.value)?$/, 'email');
  const fields: Record<string, ScimFilter['field']> = {
    username: 'userName',
    email: 'email',
    id: 'id',
    externalid: 'externalId',
    active: 'active',
  };
  const known = bare === undefined ? undefined : ownValue(fields, bare);
  if (known === undefined) {
    throw new AppError('invalid', 'This filter is not supported.', {
      detail: 'Use one comparison with eq of userName, emails.value, externalId, id or active.',
    });
  }
  return { field: known, value: word?.toLowerCase() ?? (quoted ?? '').replaceAll(/\\(.)/g, '$1') };
}
