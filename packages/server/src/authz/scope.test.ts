import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  allowEntryProblem,
  canonicalScope,
  grantsOfScopes,
  normalizeAllowList,
  TOKEN_SCOPES,
} from '@ropewalk/contract/token-scopes';
import { heldRoles, type UserActor } from './actor.ts';
import { may, readScope } from './authorize.ts';
import { covers, FULL_SCOPE, inScope, isFull, type TokenScope, tokenScope } from './scope.ts';

const A = '11111111-0000-4000-8000-000000000001';
const B = '22222222-0000-4000-8000-000000000002';
const HOME = '33333333-0000-4000-8000-000000000003';

function person(scope: TokenScope, roles: string[] = []): UserActor {
  const organizations = { [HOME]: [] };
  return {
    kind: 'user',
    id: 'self',
    username: 'self',
    email: '',
    roles,
    organizations: new Map(Object.entries(organizations)),
    groups: new Set(),
    held: heldRoles({
      site: roles,
      organizations,
      custom: {},
      defaults: { [HOME]: ['organization-workspace-access'] },
      ownersReach: true,
      shareable: {},
    }),
    scope,
    apiKeyId: '',
  };
}

const workspace = (id: string, ownerId = 'self') => ({ type: 'workspace', id, ownerId, organizationId: HOME }) as const;

test('a token may do what both its owner and its scopes permit', () => {
  const reader = person(tokenScope(['workspace:read']), ['owner']);
  assert.equal(may(reader, 'read', workspace(A, 'other')), true);
  assert.equal(may(reader, 'ssh', workspace(A)), false);
  assert.equal(may(reader, 'read', { type: 'template', id: A, organizationId: HOME }), false);
  // the scope gives nothing that the roles do not
  assert.equal(may(person(tokenScope(['workspace:*'])), 'read', workspace(A, 'other')), false);
  assert.equal(may(person(tokenScope(['workspace:*'])), 'ssh', workspace(A)), true);
  // a dormant workspace is a workspace for a token
  assert.equal(may(reader, 'read', { ...workspace(A), type: 'workspace_dormant' }), true);
  // paths name the owner of a token
  assert.equal(may(reader, 'read', { type: 'user', ownerId: 'self' }), true);
  assert.equal(may(reader, 'read', { type: 'user', ownerId: 'other' }), false);
  assert.equal(
    may(person(tokenScope(['coder:application_connect'])), 'read', { type: 'user', ownerId: 'self' }),
    false,
  );
  assert.equal(may(person(tokenScope(['no:such'])), 'read', workspace(A)), false);
});

test('an allow list limits a token to its objects, and permits nothing without an id', () => {
  const one = person(tokenScope(['coder:all'], [`workspace:${A}`]), ['owner']);
  assert.equal(may(one, 'ssh', workspace(A)), true);
  assert.equal(may(one, 'read', workspace(B)), false);
  assert.equal(may(one, 'create', { type: 'workspace', ownerId: 'self', organizationId: HOME }), false);
  assert.equal(may(one, 'read', { type: 'template', id: A, organizationId: HOME }), false);
  assert.equal(
    may(person(tokenScope(['coder:all'], [`organization:${HOME}`])), 'read', {
      type: 'organization',
      organizationId: HOME,
    }),
    true,
  );
  const { ids, ...where } = readScope(one, 'workspace');
  assert.deepEqual(ids, [A]);
  const guest = { userId: 'self', organizationIds: [HOME], groupIds: [HOME] };
  assert.deepEqual(where, { all: true, organizationIds: [HOME], ownerId: 'self', guest });
  assert.deepEqual(readScope(one, 'template').ids, []);
  assert.equal(readScope(person(tokenScope(['workspace:read'], ['workspace:*'])), 'workspace').ids, null);
  const nothing = { all: false, organizationIds: [], ownerId: '', ids: null };
  assert.deepEqual(readScope(person(tokenScope(['template:read']), ['owner']), 'workspace'), nothing);
});

test('a token covers only scopes and objects that it has', () => {
  const maker = tokenScope(['coder:workspaces.access', 'api_key:*'], [`workspace:${A}`, 'api_key:*']);
  for (const [names, list, expected] of [
    [['workspace:read'], [`workspace:${A}`], true],
    [['workspace:read'], [`workspace:${B}`], false],
    [['workspace:read'], ['*:*'], false],
    [['workspace:*'], [`workspace:${A}`], false],
    [['workspace:update'], [`workspace:${A}`], false],
    [['coder:all'], [`workspace:${A}`], false],
    [['coder:apikeys.manage_self'], ['api_key:*'], true],
    [['coder:application_connect'], [`workspace:${A}`], true],
  ] as const) {
    assert.equal(covers(maker, tokenScope(names, list)), expected, `${names} ${list}`);
  }
  assert.ok(isFull(FULL_SCOPE) && covers(FULL_SCOPE, maker) && !covers(maker, FULL_SCOPE));
  assert.ok(!isFull(tokenScope(['coder:all'], [`workspace:${A}`])));
});

test('scopes have the names and permissions of upstream', () => {
  assert.equal(TOKEN_SCOPES.size, 45);
  assert.deepEqual(grantsOfScopes(['workspace:read', 'workspace:ssh']), { workspace: ['read', 'ssh'] });
  assert.deepEqual(grantsOfScopes(['workspace:read', 'workspace:*']), { workspace: '*' });
  assert.deepEqual(grantsOfScopes(['workspace:read', 'coder:all']), { '*': '*' });
  assert.equal(canonicalScope('all'), 'coder:all');
  for (const name of ['user:create', 'system:read', 'constructor', 'workspace', '']) assert.ok(!TOKEN_SCOPES.has(name));
  assert.ok(inScope(tokenScope(['coder:workspaces.access']), 'ssh', 'workspace', A));
});

test('entries of an allow list are checked and reduced', () => {
  for (const entry of ['*:*', 'workspace:*', `template:${A}`, `*:${A}`])
    assert.equal(allowEntryProblem(entry), undefined);
  for (const entry of ['', 'workspace', 'workspace:', ':x', 'fleet:*', 'workspace:x', `workspace:${A} `]) {
    assert.notEqual(allowEntryProblem(entry), undefined, entry);
  }
  assert.deepEqual(normalizeAllowList([]), ['*:*']);
  assert.deepEqual(normalizeAllowList([`workspace:${A}`, '*:*']), ['*:*']);
  assert.deepEqual(
    normalizeAllowList([`workspace:${B}`, `workspace:${A}`, `WORKSPACE:${A}`, 'template:*', `template:${A}`]),
    ['template:*', `workspace:${A}`, `workspace:${B}`],
  );
});
