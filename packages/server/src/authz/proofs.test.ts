import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tx } from '../db/connect.ts';
import { deleteApiKey, insertApiKey, type NewApiKey } from '../db/queries/apikeys.ts';
import { setSiteValue, siteValue } from '../db/queries/site.ts';
import { markTemplateDeleted, setActiveVersion } from '../db/queries/templates.ts';
import { setPassword } from '../db/queries/users.ts';
import type { TemplateRow, UserWithAccess } from '../db/rows.ts';
import type { UserActor } from './actor.ts';
import { type Allowed, allow, authorize, authorizeOver } from './authorize.ts';
import type { Action } from './policy.ts';
import { systemTask, verifiedSignIn, verifiedToken } from './proofs.ts';

const system = { actor: { kind: 'system', name: 'test' } } as const;

/** Never called: the compiler checks it. Without proofs, the compiler would accept each line that it must reject. */
function writes(tx: Tx, template: TemplateRow, user: UserWithAccess, key: NewApiKey, actor: UserActor): void {
  // @ts-expect-error a row without authorization
  void setActiveVersion(tx, template, '');
  const updatable = allow(system, 'update', template, { type: 'template' });
  void setActiveVersion(tx, updatable, '');
  // @ts-expect-error a proof of another action
  void markTemplateDeleted(tx, updatable);
  // @ts-expect-error a proof of another resource
  void setActiveVersion(tx, allow(system, 'update', user, { type: 'user' }), '');

  const either = allow(system, template.deleted ? 'update' : 'delete', template, { type: 'template' });
  // @ts-expect-error one of two actions was authorized, and this may be the other
  void setActiveVersion(tx, either, '');
  const lookup = <A extends Action>(action: A): Allowed<A, TemplateRow> =>
    allow(system, action, template, { type: 'template' });
  void setActiveVersion(tx, lookup('update'), '');
  // @ts-expect-error a lookup for reading
  void setActiveVersion(tx, lookup('read'), '');

  const person = allow(system, 'update_personal', user, { type: 'user' });
  // @ts-expect-error the person may have a role above the actor's
  void setPassword(tx, person, '');
  void setPassword(tx, authorizeOver(system, person), '');

  void insertApiKey(tx, verifiedSignIn({ userId: user.id }), key);
  void insertApiKey(tx, authorize(system, 'create', { type: 'api_key', ownerId: user.id }), key);
  // @ts-expect-error a token does not sign in
  void insertApiKey(tx, verifiedToken(actor), key);
  // @ts-expect-error the permission to create something else
  void insertApiKey(tx, authorize(system, 'create', { type: 'file', ownerId: user.id }), key);
  void deleteApiKey(tx, verifiedToken(actor));
  // @ts-expect-error an id proves nothing
  void deleteApiKey(tx, { apiKeyId: '', userId: '' });

  void siteValue(tx, systemTask(system), '', () => '');
  // @ts-expect-error the server's own permission does not cover settings that people change
  void setSiteValue(tx, systemTask(system), '', '');
}

test('a write without its proof does not compile', () => {
  assert.equal(typeof writes, 'function');
});

test('systemTask accepts only a system context', () => {
  const person = { kind: 'user', id: 'a', apiKeyId: 'b' } as UserActor;
  assert.throws(() => systemTask({ actor: person }), /needs a system context/);
  assert.throws(() => systemTask({ actor: { kind: 'none' } }), /needs a system context/);
  assert.equal(systemTask(system).task, 'test');
});

test('the proof of a creation names the object that was authorized', () => {
  const owner = authorize(system, 'create', { type: 'file', ownerId: 'a' });
  assert.deepEqual(owner, { type: 'file', ownerId: 'a' });
  const nobody = { actor: { kind: 'none' } } as const;
  assert.throws(() => authorize(nobody, 'create', { type: 'file', ownerId: 'a' }), /Forbidden/);
});
