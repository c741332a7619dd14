import assert from 'node:assert/strict';
import { test } from 'node:test';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { KnownDevcontainers, toDevcontainer } from './known.ts';

test('the description of a dev container names the agent that the template declares for it', () => {
  const known = new KnownDevcontainers();
  const one = known.add({ workspaceFolder: '/home/me/app', configPath: '' }, 'declared');
  assert.ok(!('subagent_id' in toDevcontainer(one)));
  const id = crypto.randomUUID();
  one.prepared = uuidBytes(id);
  assert.equal(toDevcontainer(one).subagent_id, id);
});
