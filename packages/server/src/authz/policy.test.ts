import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Actor, UserActor } from './actor.ts';
import { type AuthzObject, may, mayAssign } from './authorize.ts';
import { ACTIONS, organizationRoles, type Resource, siteRoles } from './policy.ts';

const RESOURCES: Resource[] = [
  'api_key',
  'assign_org_role',
  'assign_role',
  'audit_log',
  'debug_info',
  'deployment_config',
  'deployment_stats',
  'file',
  'group',
  'group_member',
  'organization',
  'organization_member',
  'provisioner_daemon',
  'provisioner_jobs',
  'template',
  'user',
  'workspace',
  'workspace_dormant',
  'workspace_proxy',
];
const HOME = 'home';
const AWAY = 'away';

function person(site: string[], org: string[] = [], scope: UserActor['scope'] = 'all'): UserActor {
  return {
    kind: 'user',
    id: 'self',
    username: 'self',
    email: '',
    roles: site,
    organizations: new Map([[HOME, org]]),
    groups: new Set(),
    scope,
    apiKeyId: '',
  };
}

const actors: Record<string, Actor> = {
  nobody: { kind: 'none' },
  ...Object.fromEntries(Object.keys(siteRoles).map((name) => [name, person(name === 'member' ? [] : [name])])),
  ...Object.fromEntries(
    Object.keys(organizationRoles)
      .filter((name) => name !== 'organization-member')
      .map((name) => [name, person([], [name])]),
  ),
  'owner, token for applications': person(['owner'], [], 'application_connect'),
};

const situations: Record<string, Omit<AuthzObject, 'type'>> = {
  site: {},
  'other organization': { organizationId: AWAY, ownerId: 'other' },
  'own organization, of another': { organizationId: HOME, ownerId: 'other' },
  'own organization, own': { organizationId: HOME, ownerId: 'self' },
  'own, of no organization': { ownerId: 'self' },
};

/** One line for each actor, situation and resource that allows anything. */
function table(): string {
  const lines: string[] = [];
  for (const [who, actor] of Object.entries(actors)) {
    for (const [where, object] of Object.entries(situations)) {
      for (const type of RESOURCES) {
        const actions = ACTIONS.filter((action) => may(actor, action, { type, ...object }));
        const text = actions.length === ACTIONS.length ? 'everything' : actions.join(' ');
        if (actions.length > 0) lines.push(`${who} | ${where} | ${type} | ${text}`);
      }
    }
  }
  return `${lines.join('\n')}\n`;
}

test('the policy allows exactly what the checked-in table lists', () => {
  const path = join(import.meta.dirname, 'policy.golden.txt');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(path, table());
  assert.equal(table(), readFileSync(path, 'utf8'), 'review the change. If it is intended, run with UPDATE_GOLDEN=1');
});

test('only its owner and site owners may connect to a workspace', () => {
  const theirs = { type: 'workspace', organizationId: HOME, ownerId: 'other' } as const;
  const mine = { ...theirs, ownerId: 'self' };
  const may2 = (actor: Actor, object: AuthzObject) =>
    (['ssh', 'application_connect'] as const).map((action) => may(actor, action, object));
  for (const [name, actor] of Object.entries(actors)) {
    if (name.startsWith('nobody') || name.includes('token')) continue;
    assert.deepEqual(may2(actor, theirs), Array(2).fill(name === 'owner'), name);
    assert.deepEqual(may2(actor, mine), [true, true], name);
    assert.deepEqual(may2(actor, { ...mine, type: 'workspace_dormant' }), [false, false], name);
  }
  const admin = person([], ['organization-admin']);
  for (const action of ['create', 'read', 'update', 'delete', 'start', 'stop'] as const) {
    assert.equal(may(admin, action, theirs), true, action);
  }
});

test('an actor without a session may do nothing, and a banned member may not create a workspace', () => {
  assert.ok(!table().includes('nobody |'));
  const mine = { type: 'workspace', organizationId: HOME, ownerId: 'self' } as const;
  assert.equal(may(person([]), 'create', mine), true);
  const banned = person([], ['organization-workspace-creation-ban']);
  assert.equal(may(banned, 'create', mine), false);
  assert.equal(may(banned, 'start', mine), true);
});

test('the people on a list of a template may use it while they are members of its organization', () => {
  const object = (acl: AuthzObject['acl'], organizationId = HOME): AuthzObject => ({
    type: 'template',
    organizationId,
    ...(acl ? { acl } : {}),
  });
  const member = person([]);
  assert.equal(may(member, 'use', object({ users: {}, groups: {} })), false);
  assert.equal(may(member, 'use', object({ users: {}, groups: { [HOME]: 'use' } })), true);
  assert.equal(may(member, 'update', object({ users: {}, groups: { [HOME]: 'use' } })), false);
  assert.equal(may(member, 'update', object({ users: { self: 'admin' }, groups: {} })), true);
  assert.equal(may(member, 'use', object({ users: { self: 'admin' }, groups: {} }, AWAY)), false);
  const inGroup = { ...member, groups: new Set(['team']) };
  assert.equal(may(member, 'use', object({ users: {}, groups: { team: 'use' } })), false);
  assert.equal(may(inGroup, 'use', object({ users: {}, groups: { team: 'use' } })), true);
  assert.equal(
    may(inGroup, 'update', object({ users: { self: 'use' }, groups: { [HOME]: 'use', team: 'admin' } })),
    true,
  );
  assert.equal(may(inGroup, 'use', object({ users: {}, groups: { team: 'use' } }, AWAY)), false);
});

test('a role may only be assigned by people who have all its grants', () => {
  const given = (actor: Actor, organizationId?: string) =>
    Object.keys(organizationId ? organizationRoles : siteRoles).filter((name) =>
      mayAssign(actor, name, organizationId),
    );
  assert.deepEqual(given(person(['owner'])).length, Object.keys(siteRoles).length);
  assert.deepEqual(given(person(['user-admin'])), ['member']);
  assert.deepEqual(given(person(['template-admin'])), []);
  assert.deepEqual(given(person([])), []);
  const inHome = (role: string) => given(person([], [role]), HOME);
  assert.equal(inHome('organization-admin').length, Object.keys(organizationRoles).length);
  assert.deepEqual(given(person([], ['organization-admin']), AWAY), []);
  assert.ok(!inHome('organization-user-admin').includes('organization-admin'));
  assert.ok(!inHome('organization-user-admin').includes('organization-template-admin'));
  assert.deepEqual(inHome('organization-template-admin'), []);
});
