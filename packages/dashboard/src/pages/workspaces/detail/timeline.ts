/** The steps of a build on one time axis: queue, Terraform's stages with their resources, agents, scripts. */

import type { WorkspaceBuild, WorkspaceBuildTimings } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';

export interface Step {
  id: string;
  name: string;
  /** What it is about, where the name does not say it. */
  detail: string;
  /** In ms since 1970. */
  start: number;
  /** Of a step under way: now. */
  end: number;
  state: 'done' | 'running' | 'failed';
  kind: 'queue' | 'terraform' | 'resource' | 'agent' | 'script';
  /** The step that this is a part of. */
  parent?: string;
}

type TimedBuild = Pick<WorkspaceBuild, 'transition'> & {
  job: Pick<WorkspaceBuild['job'], 'created_at' | 'started_at' | 'completed_at' | 'status'>;
};

const STAGES = [
  { stage: 'init', name: 'Initialize' },
  { stage: 'plan', name: 'Plan' },
  { stage: 'graph', name: 'Build the graph' },
  { stage: 'apply', name: 'Apply' },
] as const;

const ACTION_NAMES: Record<string, string> = {
  create: 'created',
  delete: 'destroyed',
  update: 'changed',
  read: 'read',
  'state refresh': 'refreshed',
  provision: 'provisioned',
};

const ms = (time: string) => Date.parse(time);

/** The steps in the order in which they began, parts behind what they are a part of. */
export function timelineSteps(build: TimedBuild, timings: WorkspaceBuildTimings, now: number): Step[] {
  const { job } = build;
  const steps: Step[] = [];
  const created = ms(job.created_at);
  const started = job.started_at ? ms(job.started_at) : undefined;
  const ended = job.completed_at ? ms(job.completed_at) : undefined;
  const neverRan = started === undefined && ended !== undefined;
  steps.push({
    id: 'queue',
    name: 'Queue',
    detail: 'Waiting for a provisioner daemon',
    start: created,
    end: started ?? ended ?? now,
    state: started === undefined ? (neverRan ? 'failed' : 'running') : 'done',
    kind: 'queue',
  });
  const failed = job.status === 'failed' || job.status === 'canceled';
  const stages = STAGES.flatMap(({ stage, name }) => {
    const parts = timings.provisioner_timings.filter((timing) => timing.stage === stage);
    return parts.length === 0 ? [] : [{ stage, name, parts }];
  });
  for (const [at, { stage, name, parts }] of stages.entries()) {
    const last = at === stages.length - 1;
    steps.push({
      id: stage,
      name,
      detail: '',
      start: Math.min(...parts.map((part) => ms(part.started_at))),
      end: Math.max(...parts.map((part) => ms(part.ended_at))),
      state: failed && last ? 'failed' : 'done',
      kind: 'terraform',
    });
    if (parts.length === 1 && stage !== 'apply' && stage !== 'plan') continue;
    for (const [index, part] of parts.entries())
      steps.push({
        id: `${stage}-${index}`,
        name: part.resource,
        detail: ownValue(ACTION_NAMES, part.action) ?? part.action,
        start: ms(part.started_at),
        end: ms(part.ended_at),
        state: 'done',
        kind: 'resource',
        parent: stage,
      });
  }
  if (started !== undefined && stages.length === 0)
    steps.push({
      id: 'terraform',
      name: 'Terraform',
      detail: ended === undefined ? 'The stages appear here when they end' : '',
      start: started,
      end: ended ?? now,
      state: ended === undefined ? 'running' : failed ? 'failed' : 'done',
      kind: 'terraform',
    });
  steps.push(...agentSteps(build, timings));
  return steps;
}

function agentSteps(build: TimedBuild, timings: WorkspaceBuildTimings): Step[] {
  const steps: Step[] = [];
  if (build.transition === 'start')
    for (const timing of timings.agent_connection_timings)
      steps.push({
        id: `connect-${timing.workspace_agent_id}`,
        name: `Agent ${timing.workspace_agent_name}`,
        detail: 'Starts and connects',
        start: ms(timing.started_at),
        end: ms(timing.ended_at),
        state: 'done',
        kind: 'agent',
      });
  const seen = new Set<string>();
  for (const timing of timings.agent_script_timings) {
    // later runs, after the agent restarted or by a schedule, are not part of the build
    const id = `script-${timing.workspace_agent_id}-${timing.display_name}`;
    if (timing.stage !== build.transition || seen.has(id)) continue;
    seen.add(id);
    const failed = timing.exit_code !== 0;
    steps.push({
      id,
      name: timing.display_name,
      detail: failed
        ? `Script of ${timing.workspace_agent_name}, exit code ${timing.exit_code}`
        : `Script of ${timing.workspace_agent_name}`,
      start: ms(timing.started_at),
      end: ms(timing.ended_at),
      state: failed ? 'failed' : 'done',
      kind: 'script',
    });
  }
  return steps;
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000,
];
const MAX_TICKS = 6;

/** Round times between 0 and the length of the axis, in ms. */
export function axisTicks(length: number): number[] {
  const step =
    STEPS_MS.find((each) => length / each <= MAX_TICKS) ??
    STEPS_MS.at(-1)! * Math.ceil(length / STEPS_MS.at(-1)! / MAX_TICKS);
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, at) => at * step);
}
