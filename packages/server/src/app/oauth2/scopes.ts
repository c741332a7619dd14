import { canonicalScope, TOKEN_SCOPES } from '@ropewalk/contract/token-scopes';
import { ownValue } from '@ropewalk/kit/own-value';
import { covers, tokenScope } from '../../authz/scope.ts';
import { OAuth2Failure } from './failure.ts';

/** What an app may do that names no scope: all that the person may do. Upstream's apps expect it. */
const ALL = 'coder:all';

const namesIn = (text: string): string[] => [...new Set(text.split(/[\t\n\r ]+/).filter(Boolean))];

/**
 * The scopes that a request asks for, by name.
 * @param registered of the app. Empty: all
 * @throws OAuth2Failure `invalid_scope` for an unknown scope, or one that the app may not ask for
 */
export function requestedScopes(text: string | undefined, registered: string): string[] {
  const permitted = namesIn(registered).filter((name) => TOKEN_SCOPES.has(canonicalScope(name)));
  const names = namesIn(text ?? '').map(canonicalScope);
  if (names.length === 0) return permitted.length > 0 ? permitted.map(canonicalScope) : [ALL];
  const unknown = names.find((name) => !TOKEN_SCOPES.has(name));
  if (unknown !== undefined)
    throw new OAuth2Failure('invalid_scope', `Unknown scope ${JSON.stringify(unknown)}. See scopes_supported.`);
  if (permitted.length > 0 && !covers(tokenScope(permitted.map(canonicalScope)), tokenScope(names)))
    throw new OAuth2Failure('invalid_scope', 'The app did not register these scopes.');
  return [...new Set(names)];
}

/**
 * The scopes of a new access token: all that the person granted, or fewer.
 * @throws OAuth2Failure `invalid_scope` for others
 */
export function narrowedScopes(text: string | undefined, granted: readonly string[]): string[] {
  const names = namesIn(text ?? '').map(canonicalScope);
  if (names.length === 0) return [...granted];
  if (names.some((name) => !TOKEN_SCOPES.has(name)) || !covers(tokenScope(granted), tokenScope(names)))
    throw new OAuth2Failure('invalid_scope', 'The scope exceeds what the person granted.');
  return [...new Set(names)];
}

const COMPOSITE: Readonly<Record<string, string>> = {
  'coder:all': 'Everything that you can do, including changes to your account',
  'coder:application_connect': 'Open the apps of your workspaces',
  'coder:workspaces.create': 'Create, read, change, start and stop workspaces, and use templates',
  'coder:workspaces.operate': 'Read, change, start and stop workspaces',
  'coder:workspaces.delete': 'Read and delete workspaces',
  'coder:workspaces.access': 'Connect to workspaces by SSH, and open terminals and apps',
  'coder:templates.build': 'Read templates and provisioner jobs, and upload files',
  'coder:templates.author': 'Create, read, change and delete templates',
  'coder:apikeys.manage_self': 'Create, read, change and delete your tokens',
};
const NOUNS: Readonly<Record<string, string>> = {
  api_key: 'your tokens',
  file: 'files',
  organization: 'organizations',
  template: 'templates',
  user: 'accounts',
  user_secret: 'your secrets',
  workspace: 'workspaces',
};
const VERBS: Readonly<Record<string, string>> = {
  '*': 'Do everything with',
  application_connect: 'Open the apps of',
  create: 'Create',
  delete: 'Delete',
  read: 'Read',
  read_personal: 'Read personal settings of',
  ssh: 'Connect by SSH to',
  start: 'Start',
  stop: 'Stop',
  update: 'Change',
  update_personal: 'Change personal settings of',
  use: 'Use',
};

/** What a scope permits, for the person who grants it. */
export function scopeInWords(name: string): string {
  const [type = '', action = ''] = name.split(':');
  const noun = ownValue(NOUNS, type) ?? type.replaceAll('_', ' ');
  return ownValue(COMPOSITE, name) ?? `${ownValue(VERBS, action) ?? action} ${noun}`;
}
