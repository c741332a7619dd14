import { Counter, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { observeBuilds } from '../app/context/enqueued-builds.ts';

/** Counts attempts of this server to begin a build, under upstream's name. Returns a function that ends it. */
export function createEnqueuedBuildMetrics({ replicaId }: Pick<Services, 'replicaId'>, registry: Registry): () => void {
  const builds = new Counter({
    name: 'coderd_workspace_builds_enqueued_total',
    help:
      'The number of valid requests for a build on this server. status: success if the build waits for a daemon, failed if ' +
      'it could not be stored, for example because a person has too many pending jobs.',
    labelNames: ['provisioner_type', 'build_reason', 'transition', 'status'] as const,
    registers: [registry],
  });
  return observeBuilds((build) => {
    if (build.replicaId !== replicaId) return;
    builds.inc({
      provisioner_type: build.provisioner,
      build_reason: build.reason,
      transition: build.transition,
      status: build.begun ? 'success' : 'failed',
    });
  });
}
