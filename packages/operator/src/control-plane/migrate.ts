import type { ControlPlane } from '../crd/control-plane.ts';
import { ignoreNotFound } from '../kube/client.ts';
import { endOfJob, type Job } from '../kube/objects.ts';
import { JOBS } from '../kube/types.ts';
import type { NewCondition } from '../machinery/conditions.ts';
import { keyOf } from '../machinery/informer.ts';
import { condition } from '../machinery/status.ts';
import type { World } from '../world.ts';
import { owned } from './names.ts';
import { hasDatabase, migrationJob, migrationOf, type Runtime } from './pods.ts';

/** How long a failed migration stays before the next attempt, in ms. */
const RETRY_MS = 60_000;

export interface Migration {
  /** Whether the servers may start. */
  done: boolean;
  checksum: string;
  condition: NewCondition;
  againMs?: number;
}

/** Migrates the database once for each image, in a Job. A bundled database is migrated by its server. */
export async function migrate(world: World, plane: ControlPlane, runtime: Runtime): Promise<Migration> {
  const { client, caches, clock } = world;
  const { namespace = '' } = plane.metadata;
  const checksum = migrationOf(plane, runtime.image);
  const outcome = (done: boolean, reason: string, message: string): Migration => ({
    done,
    checksum,
    condition: condition('Migrated', done, reason, message),
  });
  const jobs = [...caches.jobs.all()].filter((job) => owned.ownerOf(job) === keyOf(plane));
  if (!hasDatabase(plane)) {
    await remove(world, jobs);
    return outcome(true, 'NotNeeded', 'The server migrates its bundled database itself.');
  }
  const desired = migrationJob(plane, runtime, checksum);
  const { name } = desired.metadata;
  // one for another image must not run at the same time
  await remove(
    world,
    jobs.filter((job) => job.metadata.name !== name),
  );
  if (plane.status?.migration === checksum)
    return outcome(true, 'Migrated', `The database has the schema of ${runtime.image}.`);
  const live = caches.jobs.get(namespace, name);
  if (!live) {
    caches.jobs.store(await client.create(JOBS, desired));
    return outcome(false, 'Running', `The Job "${name}" migrates the database.`);
  }
  const end = endOfJob(live);
  if (end?.type === 'Complete') return outcome(true, 'Migrated', `The database has the schema of ${runtime.image}.`);
  if (!end) return outcome(false, 'Running', `The Job "${name}" migrates the database.`);
  const leftMs = (end.at ? Date.parse(end.at) : 0) + RETRY_MS - clock.now().getTime();
  if (leftMs <= 0) await remove(world, [live]);
  return {
    ...outcome(
      false,
      'Failed',
      `The Job "${name}" could not migrate the database. Read the log of its pods. Servers that run continue.`,
    ),
    ...(leftMs > 0 ? { againMs: leftMs } : {}),
  };
}

async function remove({ client }: World, jobs: readonly Job[]): Promise<void> {
  for (const { metadata } of jobs) {
    if (metadata.deletionTimestamp) continue;
    await client.delete(JOBS, metadata.namespace!, metadata.name).catch(ignoreNotFound);
  }
}
