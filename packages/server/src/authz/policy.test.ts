import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PERMISSIONS } from '@ropewalk/contract/permissions';
import { type Actor, heldRoles, type UserActor } from './actor.ts';
import { type AuthzObject, authorize, may, mayAssign, readScope } from './authorize.ts';
import { type Action, organizationRoles, type Resource, type Role, type ShareableOwners, siteRoles } from './policy.ts';
import { FULL_SCOPE, tokenScope } from './scope.ts';

const RESOURCES = Object.keys(PERMISSIONS) as Resource[];
const HOME = 'home';
const AWAY = 'away';

/** The role that all members have unless their organization has other default roles. */
const ACCESS = 'organization-workspace-access';

interface Person {
  scope?: UserActor['scope'];
  custom?: Role[];
  ownersReach?: boolean;
  sharing?: ShareableOwners;
  defaults?: string[];
}

function person(site: string[], org: string[] = [], more: Person = {}): UserActor {
  const { scope = FULL_SCOPE, custom = [], ownersReach = true, sharing = 'everyone', defaults = [ACCESS] } = more;
  return {
    kind: 'user',
    id: 'self',
    username: 'self',
    email: '',
    roles: site,
    organizations: new Map([[HOME, org]]),
    groups: new Set(),
    held: heldRoles({
      site,
      organizations: { [HOME]: org },
      custom: { [HOME]: custom },
      defaults: { [HOME]: defaults },
      ownersReach,
      shareable: { [HOME]: sharing },
    }),
    scope,
    apiKeyId: '',
  };
}

const actors: Record<string, Actor> = {
  nobody: { kind: 'none' },
  ...Object.fromEntries(Object.keys(siteRoles).map((name) => [name, person(name === 'member' ? [] : [name])])),
  ...Object.fromEntries(
    Object.keys(organizationRoles)
      .filter((name) => name !== 'organization-member' && name !== ACCESS)
      .map((name) => [name, person([], [name])]),
  ),
  'member, no default roles': person([], [], { defaults: [] }),
  operator: { kind: 'operator', organizationId: HOME },
  'owner, token for applications': person(['owner'], [], { scope: tokenScope(['coder:application_connect']) }),
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
        const all: readonly Action[] = PERMISSIONS[type];
        const actions = all.filter((action) => may(actor, action, { type, ...object }));
        const text = actions.length === all.length ? 'everything' : actions.join(' ');
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
    if (actor.kind !== 'user' || name.includes('token')) continue;
    assert.deepEqual(may2(actor, theirs), Array(2).fill(name === 'owner'), name);
    assert.deepEqual(may2(actor, mine), Array(2).fill(!name.includes('no default roles')), name);
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

test('says in a sentence what a person may not do', () => {
  const acl = { users: {}, groups: { [HOME]: 'use' } } as const;
  const template = { type: 'template', organizationId: HOME, acl } as const;
  const refused = (action: Action) => {
    try {
      authorize({ actor: person([]) }, action, template);
    } catch (err) {
      return (err as { detail?: string }).detail;
    }
    return undefined;
  };
  assert.equal(refused('update'), 'You may not update this template.');
  assert.equal(refused('view_insights'), 'You may not view insights of this template.');
  const actions = Object.values(PERMISSIONS).flat();
  assert.deepEqual(
    actions.filter((action) => refused(action)?.includes('_')),
    [],
  );
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

test('the people and groups that a workspace is shared with may do what their level permits, while they are members', () => {
  const theirs = (acl: AuthzObject['acl'], more: Partial<AuthzObject> = {}): AuthzObject => ({
    type: 'workspace',
    organizationId: HOME,
    ownerId: 'other',
    ...(acl ? { acl } : {}),
    ...more,
  });
  const actions: readonly Action[] = PERMISSIONS.workspace;
  const allowedTo = (actor: Actor, object: AuthzObject) => actions.filter((action) => may(actor, action, object));
  const member = person([]);
  const user = (level: string) => ({ users: { self: level }, groups: {} });
  const use = ['read', 'start', 'stop', 'ssh', 'application_connect'];
  const admin = actions.filter((action) => action !== 'delete');
  assert.deepEqual(allowedTo(member, theirs({ users: {}, groups: {} })), []);
  assert.deepEqual(allowedTo(member, theirs({ users: { another: 'admin' }, groups: { team: 'admin' } })), []);
  assert.deepEqual(allowedTo(member, theirs(user('use'))), use);
  assert.deepEqual(allowedTo(member, theirs(user('admin'))), admin);
  assert.deepEqual(allowedTo(member, theirs(user('constructor'))), []);
  assert.deepEqual(
    allowedTo({ ...member, groups: new Set(['team']) }, theirs({ users: {}, groups: { team: 'use' } })),
    use,
  );
  assert.deepEqual(allowedTo(member, theirs({ users: {}, groups: { [HOME]: 'use' } })), use);
  assert.deepEqual(allowedTo(member, theirs(user('admin'), { organizationId: AWAY })), []);
  assert.deepEqual(allowedTo(member, theirs(user('admin'), { type: 'workspace_dormant' })), []);
  const off = { ...member, held: { ...member.held, sharing: false } };
  assert.deepEqual(allowedTo(off, theirs(user('admin'))), [], 'the server has sharing switched off');
  const limited = person([], [], { scope: tokenScope(['workspace:read']) });
  assert.deepEqual(allowedTo(limited, theirs(user('admin'))), ['read']);
  assert.deepEqual(readScope(member, 'workspace').guest?.groupIds, [HOME]);
  assert.equal(readScope(off, 'workspace').guest, undefined);
});

test('members may share their own workspaces, and see other members and groups, as the organization permits', () => {
  const mine = { type: 'workspace', organizationId: HOME, ownerId: 'self' } as const;
  for (const [sharing, expected] of [
    ['everyone', [true, true, true]],
    ['service_accounts', [false, true, false]],
    ['none', [false, false, false]],
  ] as const) {
    const member = person([], [], { sharing });
    const found = [
      may(member, 'share', mine),
      may(member, 'read', { type: 'organization_member', organizationId: HOME, ownerId: 'other' }),
      may(member, 'read', { type: 'group', organizationId: HOME }),
    ];
    assert.deepEqual(found, expected, sharing);
    assert.equal(may(member, 'share', { ...mine, ownerId: 'other' }), false);
    assert.equal(may(member, 'ssh', mine), true);
  }
});

test('a role may only be assigned by people who have all its grants', () => {
  const given = (actor: Actor, organizationId?: string) =>
    Object.entries(organizationId ? organizationRoles : siteRoles)
      .filter(([, role]) => mayAssign(actor, role, organizationId))
      .map(([name]) => name);
  assert.deepEqual(given(person(['owner'])).length, Object.keys(siteRoles).length);
  assert.deepEqual(given(person(['user-admin'])), ['member']);
  assert.deepEqual(given(person(['template-admin'])), []);
  assert.deepEqual(given(person([])), []);
  const inHome = (role: string) => given(person([], [role]), HOME);
  assert.equal(inHome('organization-admin').length, Object.keys(organizationRoles).length);
  assert.deepEqual(given(person([], ['organization-admin']), AWAY), []);
  assert.deepEqual(inHome('organization-user-admin'), ['organization-member', ACCESS]);
  assert.ok(!inHome('organization-user-admin').includes('organization-template-admin'));
  assert.deepEqual(inHome('organization-template-admin'), []);
});

test('custom roles add permissions in their organization, and people with all of them may assign them', () => {
  const readers: Role = { name: 'readers', displayName: '', org: { template: ['read'], workspace: ['read'] } };
  const shells: Role = { name: 'shells', displayName: '', org: { workspace: ['ssh'] } };
  const template = { type: 'template', organizationId: HOME } as const;
  const reader = person([], ['readers'], { custom: [readers] });
  assert.equal(may(reader, 'read', template), true);
  assert.equal(may(reader, 'update', template), false);
  assert.equal(may(reader, 'read', { ...template, organizationId: AWAY }), false);
  assert.equal(may(person([], [], { custom: [readers] }), 'read', template), false, 'defined, but not assigned');
  const admin = person([], ['organization-admin']);
  assert.deepEqual([mayAssign(admin, readers, HOME), mayAssign(admin, readers, AWAY)], [true, false]);
  assert.equal(mayAssign(admin, shells, HOME), false, 'organization admins cannot open shells');
  assert.equal(mayAssign(person(['owner']), shells, HOME), true);
  assert.equal(mayAssign(person(['user-admin']), readers, HOME), false);
  assert.equal(mayAssign(reader, readers, HOME), false);
});

test('owners lose access to other people’s workspaces where the option says so, and keep all else', () => {
  const theirs = { type: 'workspace', organizationId: HOME, ownerId: 'other' } as const;
  const owner = person(['owner'], [], { ownersReach: false });
  for (const action of ['ssh', 'application_connect'] as const) {
    assert.equal(may(owner, action, theirs), false, action);
    assert.equal(may(owner, action, { ...theirs, ownerId: 'self' }), true, action);
  }
  for (const action of ['read', 'update', 'stop', 'delete'] as const) assert.equal(may(owner, action, theirs), true);
  assert.equal(may(owner, 'update', { type: 'deployment_config' }), true);
});
