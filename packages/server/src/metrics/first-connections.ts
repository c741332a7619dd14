import { errorText } from '@ropewalk/kit';
import { Histogram, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { templateNameOfWorkspace } from '../db/queries/figures.ts';
import type { Metrics } from './metrics.ts';

/**
 * Times how long agents take from their creation to their first connection, under upstream's name. Sub-agents do not
 * count: people choose their names, so there could be any number of series.
 */
export function createFirstConnectionMetrics(
  { sql, log, clock }: Pick<Services, 'sql' | 'log' | 'clock'>,
  registry: Registry,
): Metrics['agentFirstConnected'] {
  const durations = new Histogram({
    name: 'coderd_agents_first_connection_seconds',
    help: 'The time from the creation of an agent to its first connection, which is to this server, in seconds.',
    labelNames: ['template_name', 'agent_name'] as const,
    buckets: [1, 10, 30, 60, 120, 300, 600, 1800, 3600],
    registers: [registry],
  });
  return ({ name, parent_id, workspace_id, created_at }) => {
    if (parent_id !== null) return;
    // the clocks of server and database can differ
    const seconds = Math.max(0, clock.now().getTime() - created_at.getTime()) / 1_000;
    templateNameOfWorkspace(sql, workspace_id).then(
      (template = 'unknown') => durations.observe({ template_name: template, agent_name: name }, seconds),
      (err) => log.warn('could not count the first connection of an agent', { err: errorText(err) }),
    );
  };
}
