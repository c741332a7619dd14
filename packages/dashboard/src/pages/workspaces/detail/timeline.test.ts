import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axisTicks, timelineSteps } from './timeline.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1_000).toISOString();
const zero = Date.UTC(2026, 0, 1);
const none = { provisioner_timings: [], agent_connection_timings: [], agent_script_timings: [] };
const part = (stage: 'init' | 'plan' | 'apply', resource: string, from: number, to: number) => ({
  stage,
  resource,
  action: 'create',
  source: 'x',
  job_id: 'j',
  started_at: at(from),
  ended_at: at(to),
});
const script = (name: string, from: number, to: number, exit = 0) => ({
  display_name: name,
  exit_code: exit,
  stage: 'start' as const,
  status: 'ok',
  started_at: at(from),
  ended_at: at(to),
  workspace_agent_id: 'a',
  workspace_agent_name: 'main',
});

test('shows a waiting build as a queue that grows', () => {
  const job = { created_at: at(0), status: 'pending' as const };
  const [queue, ...rest] = timelineSteps({ transition: 'start', job }, none, zero + 5_000);
  assert.deepEqual([queue!.state, queue!.end - queue!.start, rest.length], ['running', 5_000, 0]);
});

test('shows stages with their resources, the agent and the first run of each script', () => {
  const job = { created_at: at(0), started_at: at(1), completed_at: at(9), status: 'succeeded' as const };
  const steps = timelineSteps(
    { transition: 'start', job },
    {
      provisioner_timings: [part('init', 'state', 1, 2), part('apply', 'vm.a', 4, 8), part('apply', 'disk.b', 3, 5)],
      agent_connection_timings: [
        {
          stage: 'connect',
          started_at: at(9),
          ended_at: at(11),
          workspace_agent_id: 'a',
          workspace_agent_name: 'main',
        },
      ],
      agent_script_timings: [script('Setup', 11, 12, 3), script('Setup', 500, 501)],
    },
    zero + 900_000,
  );
  assert.deepEqual(
    steps.map(({ name, parent = '' }) => `${parent}/${name}`),
    ['/Queue', '/Initialize', '/Apply', 'apply/vm.a', 'apply/disk.b', '/Agent main', '/Setup'],
  );
  const apply = steps.find(({ id }) => id === 'apply')!;
  assert.deepEqual([apply.start - zero, apply.end - zero], [3_000, 8_000]);
  assert.equal(steps.at(-1)!.state, 'failed');
});

test('marks the last stage of a failed build', () => {
  const job = { created_at: at(0), started_at: at(1), completed_at: at(9), status: 'failed' as const };
  const steps = timelineSteps(
    { transition: 'start', job },
    { ...none, provisioner_timings: [part('init', 'state', 1, 2), part('plan', 'x', 2, 4)] },
    zero,
  );
  assert.deepEqual(
    steps.filter(({ kind }) => kind === 'terraform').map(({ state }) => state),
    ['done', 'failed'],
  );
});

test('labels the axis with few round times', () => {
  assert.deepEqual(axisTicks(9_300), [0, 2_000, 4_000, 6_000, 8_000]);
  assert.deepEqual(axisTicks(0), [0]);
  assert.ok(axisTicks(400 * 86_400_000).length <= 8);
});
