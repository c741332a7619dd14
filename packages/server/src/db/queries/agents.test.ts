import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestTemplate, startTestServer } from '@ropewalk/testkit';
import { fillWorkspaces } from '@ropewalk/testkit/crowd';
import { connectedAgent } from '../../authz/proofs.ts';
import { type AliveConnection, markAgentsAlive } from './agents.ts';

const AGENTS = 3_000;

test('stores a beat of many agents in proportion to their number, with a plan from when there were none', async () => {
  const server = await startTestServer();
  const { sql } = server.services;
  const beat = async (ids: readonly string[]) => {
    const alive = ids.map((id): AliveConnection => ({ agent: connectedAgent({ id }), number: 0, network: undefined }));
    const started = performance.now();
    const outdated = await markAgentsAlive(sql, alive);
    assert.equal(outdated.size, 0);
    return (performance.now() - started) / ids.length;
  };
  await beat([]);
  const template = await createTestTemplate(server, 'beat');
  await fillWorkspaces(sql, template.id, AGENTS);
  const rows = await sql<{ id: string }[]>`SELECT id FROM workspace_agents`;
  const ids = rows.map(({ id }) => id);
  assert.equal(ids.length, AGENTS);
  const few = Math.min(await beat(ids.slice(0, AGENTS / 10)), await beat(ids.slice(0, AGENTS / 10)));
  const many = Math.min(await beat(ids), await beat(ids));
  assert.ok(many < few * 4, `${many} ms for each of many agents, ${few} ms for each of few`);
  await server.stop();
});
