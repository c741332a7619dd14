import { errorText } from '@ropewalk/kit';
import type { Services } from '../app/context/context.ts';

/** After this time, in ms, an announced end without a commit counts as rolled back. */
const MARK_MS = 60_000;

/**
 * Calls `read` with the jobs that this server ended, until the returned function is called. The server notes the event
 * when it publishes it, and reads the row when the notification arrives, which is after the commit.
 */
export function watchEndedJobs(
  { events, log }: Pick<Services, 'events' | 'log'>,
  read: (ids: string[]) => Promise<void>,
): () => void {
  /** Ends that this server published and whose commit is not confirmed yet. */
  const said = new Map<string, number>();
  /** Ended jobs whose rows are to be read. */
  let ended = new Set<string>();
  let reading = false;

  async function readAll(): Promise<void> {
    if (reading) return;
    reading = true;
    try {
      while (ended.size > 0) {
        const ids = [...ended];
        ended = new Set();
        try {
          await read(ids);
        } catch (err) {
          // read together with the next job that ends
          for (const id of ids) ended.add(id);
          throw err;
        }
      }
    } catch (err) {
      log.debug('could not record ended jobs', { err: errorText(err) });
    } finally {
      reading = false;
    }
  }

  const off = [
    events.onPublish('job_changed', ({ job_id, end }) => {
      if (!end) return;
      const now = performance.now();
      for (const [id, since] of said) if (now - since > MARK_MS) said.delete(id);
      said.set(job_id, now);
    }),
    events.on('job_changed', ({ job_id, end }) => {
      if (!end || !said.delete(job_id)) return;
      ended.add(job_id);
      void readAll();
    }),
    events.onResync(() => {
      // those notifications may be lost. A job that has not ended is not read
      for (const id of said.keys()) ended.add(id);
      said.clear();
      void readAll();
    }),
  ];
  return () => {
    for (const stop of off) stop();
  };
}
