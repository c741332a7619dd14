import { errorText } from '@ropewalk/kit';
import { Histogram, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { startedBuild } from '../db/queries/figures.ts';
import type { Metrics } from './metrics.ts';

/** The number of builds that a server remembers as counted. Reports that count the same build arrive within seconds. */
const REMEMBERED = 1_000;

/**
 * Times how long people wait from the creation of a build until all agents have started, under upstream's name. The
 * server of the agent that starts last counts it. If several agents start at the same time, each of them may be the last.
 */
export function createStartedBuildMetrics(
  { sql, log }: Pick<Services, 'sql' | 'log'>,
  registry: Registry,
): Metrics['agentStarted'] {
  const durations = new Histogram({
    name: 'coderd_template_workspace_build_duration_seconds',
    help: 'The time from the creation of a build until the startup scripts of its last agent have ended, in seconds.',
    labelNames: ['template_name', 'organization_name', 'transition', 'status', 'is_prebuild'] as const,
    buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
    registers: [registry],
  });
  const counted = new Set<string>();
  return ({ id, parent_id }) => {
    if (parent_id !== null) return;
    startedBuild(sql, id).then(
      (build) => {
        if (!build || counted.has(build.id)) return;
        counted.add(build.id);
        if (counted.size > REMEMBERED) counted.delete(counted.values().next().value!);
        const { id: _, seconds, is_prebuild, ...labels } = build;
        // the clocks of agent and database can differ
        durations.observe({ ...labels, is_prebuild: String(is_prebuild) }, Math.max(0, seconds));
      },
      (err) => log.warn('could not time the start of a build', { err: errorText(err) }),
    );
  };
}
