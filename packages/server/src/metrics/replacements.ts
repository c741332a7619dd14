import { errorText } from '@ropewalk/kit';
import { Counter, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { endedJobs } from '../db/queries/figures.ts';
import type { Metrics } from './metrics.ts';

/** Counts prebuilt workspaces whose claim replaced resources, under upstream's name. */
export function createReplacementMetrics(
  { sql, log }: Pick<Services, 'sql' | 'log'>,
  registry: Registry,
): Metrics['claimReplaced'] {
  const replaced = new Counter({
    name: 'coderd_prebuilt_workspaces_resource_replacements_total',
    help:
      'The number of builds that ended on this server, gave a prebuilt workspace to a person and replaced at least one of its ' +
      'resources.',
    labelNames: ['template_name', 'preset_name', 'organization_name'] as const,
    registers: [registry],
  });
  return (jobId) => {
    endedJobs(sql, [jobId]).then(
      ([job]) => {
        // an administrator may delete the organization meanwhile
        if (!job) return;
        const { template_name, preset_name, organization_name } = job;
        replaced.inc({ template_name: template_name ?? '', preset_name: preset_name ?? '', organization_name });
      },
      (err) => log.warn('could not count a build that replaced resources', { err: errorText(err) }),
    );
  };
}
