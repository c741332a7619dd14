// Attempts of this process to begin builds, for metrics. Nothing is kept unless somebody observes.
import { channel } from 'node:diagnostics_channel';

export interface EnqueuedBuild {
  /** The server. One process can have several. */
  replicaId: string;
  provisioner: string;
  reason: string;
  transition: string;
  /** Whether the build has begun: it waits for a daemon. */
  begun: boolean;
}

const attempts = channel('platform.enqueued-build');

export const reportBuild = (build: EnqueuedBuild): void => attempts.publish(build);

/** Calls `observe` for each attempt until the returned function is called. */
export function observeBuilds(observe: (build: EnqueuedBuild) => void): () => void {
  const listener = (build: unknown) => observe(build as EnqueuedBuild);
  attempts.subscribe(listener);
  return () => {
    attempts.unsubscribe(listener);
  };
}
