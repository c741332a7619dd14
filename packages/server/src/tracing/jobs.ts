import { ROOT_CONTEXT, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import type { Services } from '../app/context/context.ts';
import { endedJobs, stageTimes } from '../db/queries/figures.ts';
import { watchEndedJobs } from '../metrics/ended-jobs.ts';

/**
 * Exports a trace of each job that ends on this server, such as a build: a span from its creation to its end, with spans
 * for its time in the queue and for each stage of Terraform. Returns a function that ends it.
 */
export function traceJobs(services: Pick<Services, 'sql' | 'events' | 'log'>, tracer: Tracer): () => void {
  const { sql } = services;
  return watchEndedJobs(services, async (ids) => {
    const [jobs, stages] = await Promise.all([endedJobs(sql, ids), stageTimes(sql, ids)]);
    for (const job of jobs) {
      const { transition, workspace_name, template_name, version_name } = job;
      const span = tracer.startSpan(
        transition === null ? job.type : `${job.type} ${transition}`,
        {
          startTime: job.created_at,
          attributes: {
            'coder.job.id': job.id,
            'coder.job.status': job.job_status,
            ...(transition === null ? {} : { 'coder.build.transition': transition }),
            ...(workspace_name === null ? {} : { 'coder.workspace.name': workspace_name }),
            ...(template_name === null ? {} : { 'coder.template.name': template_name }),
            ...(version_name === null ? {} : { 'coder.template.version': version_name }),
          },
        },
        ROOT_CONTEXT,
      );
      const inside = trace.setSpan(ROOT_CONTEXT, span);
      const part = (name: string, from: Date, to: Date) => tracer.startSpan(name, { startTime: from }, inside).end(to);
      part('queue', job.created_at, job.started_at ?? job.completed_at);
      for (const stage of stages) {
        if (stage.job_id === job.id) part(stage.stage, stage.started_at, stage.ended_at);
      }
      if (job.job_status === 'failed') span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(job.completed_at);
    }
  });
}
