import { errorText } from '@ropewalk/kit';
import { Histogram, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { countStartedBuild } from '../db/queries/figures.ts';
import type { Metrics } from './metrics.ts';

/**
 * Times how long people wait from the creation of a build until all agents have started, under upstream's name. The
 * server of the agent that starts last counts it. If several agents start at the same time, the database lets one of their
 * servers count. It takes the time, too, because the clocks of agents may be wrong.
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
  return (agent) => {
    if (agent.parent_id !== null) return;
    countStartedBuild(sql, agent).then(
      (build) => {
        if (!build) return;
        const { seconds, is_prebuild, ...labels } = build;
        durations.observe({ ...labels, is_prebuild: String(is_prebuild) }, seconds);
      },
      (err) => log.warn('could not time the start of a build', { err: errorText(err) }),
    );
  };
}
