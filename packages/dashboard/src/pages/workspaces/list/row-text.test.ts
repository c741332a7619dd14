import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { hasOtherAgent, stateDetail } from './row-text.ts';

const NOW = Date.parse('2026-11-25T12:00:00Z');
const HOUR_AGO = '2026-11-25T11:00:00Z';
const NEVER = '0001-01-01T00:00:00Z';

const agent = (more: Partial<WorkspaceAgent>) =>
  ({ id: 'a', name: 'main', status: 'connected', lifecycle_state: 'ready', version: 'v2', ...more }) as WorkspaceAgent;

/** A workspace with one agent. */
function workspace(status: string, { job = {}, of = {}, ...more }: Record<string, object | string | boolean> = {}) {
  const one = agent(of as Partial<WorkspaceAgent>);
  const build = { status, build_number: 3, created_at: HOUR_AGO, deadline: NEVER, resources: [{ agents: [one] }] };
  return {
    health: { healthy: true, failing_agents: [] },
    latest_build: { ...build, job: { completed_at: HOUR_AGO, ...(job as object) } },
    ...more,
  } as unknown as Workspace;
}

const sick = { health: { healthy: false, failing_agents: ['a'] } };

for (const [name, given, expected] of [
  [
    'one that waits for a daemon',
    workspace('pending', {
      job: { pending_reason: { reason: 'provisioners_busy', queue_position: 2, queue_size: 5 } },
    }),
    'Queue: 2 of 5',
  ],
  [
    'one that no daemon takes',
    workspace('pending', { job: { pending_reason: { reason: 'no_provisioners' } } }),
    'No provisioner daemon takes it',
  ],
  ['one that is being built', workspace('starting'), 'Build 3, begun 1 hour ago'],
  ['one that runs without end', workspace('running'), 'Started 1 hour ago'],
  [
    'one whose agent is lost',
    workspace('running', { ...sick, of: { status: 'disconnected', disconnected_at: HOUR_AGO } }),
    'Agent main lost 1 hour ago',
  ],
  [
    'one whose agent never came',
    workspace('running', { ...sick, of: { status: 'timeout' } }),
    'Agent main never connected',
  ],
  [
    'one whose script failed',
    workspace('running', { ...sick, of: { lifecycle_state: 'start_error' } }),
    'A startup script of main failed',
  ],
  [
    'one that failed',
    workspace('failed', { job: { error: 'terraform apply: exit status 1: no capacity' } }),
    'no capacity',
  ],
  ['one that is stopped', workspace('stopped'), 'Stopped 1 hour ago'],
  [
    'one that starts by a schedule',
    workspace('stopped', { next_start_at: '2026-11-25T14:00:00Z' }),
    'Starts in 2 hours',
  ],
] as const)
  test(`the second line of ${name}`, () => assert.equal(stateDetail(given, NOW), expected));

test('marks running workspaces whose agent has another version than the server', () => {
  assert.equal(hasOtherAgent(workspace('running', { of: { version: 'v1' } }), 'v2'), true);
  assert.equal(hasOtherAgent(workspace('running'), 'v2'), false);
  assert.equal(hasOtherAgent(workspace('stopped', { of: { version: 'v1' } }), 'v2'), false);
  assert.equal(hasOtherAgent(workspace('running', { of: { version: '' } }), 'v2'), false, 'it has not connected');
});
