import type { PendingReason } from '@ropewalk/contract';
import { differenceText } from '@ropewalk/rules';
import type { Db } from '../../db/connect.ts';
import { type DaemonGroup, daemonGroups } from '../../db/queries/daemons.ts';
import { pendingTagSets, queuePlaces, usualSeconds } from '../../db/queries/job-queue.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import type { JobRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { optionalTime } from '../values/time.ts';
import { enginesText, hasEngine } from './engines.ts';
import {
  canTake,
  differenceSize,
  matches,
  runnableTagSets,
  type Tags,
  tagDifference,
  tagsText,
  UNTAGGED,
} from './tags.ts';

/** A daemon that leaves a matching job pending for longer than this, in ms, does not accept jobs. */
const TAKEN_MS = 10_000;
/** How many groups of daemons a message names. */
const MAX_NAMED = 3;
/** How long a snapshot of the daemons is used to explain why jobs wait, in ms. */
const DAEMONS_MS = 500;
const known = new WeakMap<object, { groups: DaemonGroup[]; until: number }>();

async function groupsNow(services: Services, db: Db): Promise<DaemonGroup[]> {
  const before = known.get(services.sql);
  if (before && before.until > performance.now()) return before.groups;
  const groups = await daemonGroups(db);
  known.set(services.sql, { groups, until: performance.now() + DAEMONS_MS });
  return groups;
}

/** Drops the snapshot because a daemon connected or left: the next query reads the daemons again. */
export function forgetDaemonGroups(services: Services): void {
  known.delete(services.sql);
}

type WaitingJob = Pick<
  JobRow,
  | 'id'
  | 'input'
  | 'organization_id'
  | 'provisioner'
  | 'tags'
  | 'type'
  | 'created_at'
  | 'required_version'
  | 'terraform_range'
>;

/** Why each of these pending jobs waits, and for which daemons. */
export async function pendingReasons(
  services: Services,
  db: Db,
  jobs: WaitingJob[],
): Promise<Map<string, PendingReason>> {
  if (jobs.length === 0) return new Map();
  const groups = await groupsNow(services, db);
  const matching = new Map(jobs.map((job) => [job.id, groups.filter((group) => canRun(group, job))]));
  const places = await placesOf(db, jobs, matching);
  const now = services.clock.now().getTime();
  const usual = new Map<string, Promise<number | undefined>>();
  const usualOf = (job: WaitingJob) => {
    const key = JSON.stringify([job.organization_id, job.type, job.tags]);
    const found = usual.get(key) ?? usualSeconds(db, job);
    usual.set(key, found);
    return found;
  };
  const problemOf = await problemFor(services, db);
  const reasons = await Promise.all(
    jobs.map(async (job): Promise<[string, PendingReason]> => {
      const able = matching.get(job.id)!;
      const place = places.get(job.id) ?? { position: 0, size: 0 };
      const busy = sum(able, 'available') > 0 && sum(able, 'idle') === 0;
      const reason = explain(job, able, groups, place, busy ? await usualOf(job) : undefined, now);
      const problem = sum(able, 'available') === 0 ? problemOf(job) : undefined;
      return [job.id, problem === undefined ? reason : { ...reason, message: `${reason.message} ${problem}` }];
    }),
  );
  return new Map(reasons);
}

/** Why this server's built-in daemons do not take a job that they could run. */
async function problemFor(services: Services, db: Db): Promise<(job: WaitingJob) => string | undefined> {
  const problem = services.builtinDaemonsProblem();
  if (problem === undefined) return () => undefined;
  const organization = await defaultOrganizationId(db);
  const runs = (job: WaitingJob) =>
    job.organization_id === organization && job.provisioner === 'terraform' && matches(job.tags, UNTAGGED);
  return (job) => (runs(job) ? problem : undefined);
}

function canRun(group: DaemonGroup, job: WaitingJob): boolean {
  return hasTags(group, job) && hasEngine(job, group.engines);
}

function hasTags(group: DaemonGroup, job: WaitingJob): boolean {
  return group.organization_id === job.organization_id && canTake(job, group);
}

const sum = (groups: DaemonGroup[], what: 'count' | 'available' | 'idle') =>
  groups.reduce((total, group) => total + group[what], 0);

interface Place {
  position: number;
  size: number;
}

/**
 * For each job, its best position among the jobs that the same group of daemons may take, and the size of the longest
 * such queue.
 */
async function placesOf(db: Db, jobs: WaitingJob[], matching: Map<string, DaemonGroup[]>): Promise<Map<string, Place>> {
  const online = new Set(jobs.flatMap((job) => matching.get(job.id)!.filter((group) => group.available > 0)));
  const queues: { organization: string; queue: number; tags: Tags; provisioners: string[] }[] = [];
  let number = 0;
  for (const group of online) {
    const organization = group.organization_id;
    const sets =
      runnableTagSets(group.tags) ??
      (await pendingTagSets(db, organization)).filter((jobTags) => matches(jobTags, group.tags));
    queues.push(...sets.map((tags) => ({ organization, queue: number, tags, provisioners: group.provisioners })));
    number++;
  }
  if (queues.length === 0) return new Map();
  const rows = await queuePlaces(
    db,
    queues,
    jobs.map((job) => job.id),
  );
  return new Map(rows.map(({ id, ...place }) => [id, place]));
}

const plural = (count: number, one: string) => `${count} ${one}${count === 1 ? '' : 's'}`;

function explain(
  job: WaitingJob,
  able: DaemonGroup[],
  groups: DaemonGroup[],
  place: Place,
  usual: number | undefined,
  now: number,
): PendingReason {
  const [count, available, idle] = [sum(able, 'count'), sum(able, 'available'), sum(able, 'idle')];
  const seen = able.map((group) => group.most_recently_seen).sort((a, b) => Number(b ?? 0) - Number(a ?? 0))[0] ?? null;
  const base = {
    matched_provisioners: { count, available, ...optionalTime('most_recently_seen', seen) },
    queue_position: place.position,
    queue_size: place.size,
  };
  if (count === 0) return { ...base, reason: 'no_matching_provisioners', ...withNamedTags(job, nobody(job, groups)) };
  if (available === 0) {
    const message = `${count === 1 ? 'The one provisioner daemon' : `All ${count} provisioner daemons`} that can take it ${count === 1 ? 'is' : 'are'} offline${
      seen ? `; the last was seen ${seen.toISOString()}` : ''
    }.`;
    return { ...base, reason: 'provisioners_offline', message };
  }
  if (idle > 0) {
    const message =
      now - job.created_at.getTime() < TAKEN_MS
        ? `${plural(idle, 'provisioner daemon')} can take it now.`
        : `${plural(idle, 'provisioner daemon')} without a job could take it, but ${idle === 1 ? 'does' : 'do'} not ` +
          'accept jobs now, for example because a disk is full. The log of the daemon says why.';
    return { ...base, reason: 'starting', message };
  }
  // the number of jobs that end before this one begins, divided by the number of daemons
  const estimate = usual === undefined ? undefined : Math.ceil((Math.max(1, place.position) / available) * usual);
  return {
    ...base,
    reason: 'provisioners_busy',
    message:
      `${available === 1 ? 'The one provisioner daemon that can take it works' : `All ${available} provisioner daemons that can take it work`} ` +
      `on other jobs: position ${place.position} of ${place.size}` +
      `${estimate === undefined ? '' : `, about ${estimate} s to wait`}.`,
    ...(estimate === undefined ? {} : { estimated_wait_seconds: estimate }),
  };
}

/**
 * Adds the tags that the template names and the import lacks: they apply to workspaces only, which is often the reason
 * why an import finds no daemon.
 */
function withNamedTags<T extends Pick<PendingReason, 'message'>>(
  job: WaitingJob,
  reason: T,
): T & Pick<PendingReason, 'template_tags'> {
  const lacking = Object.entries(job.input.named_tags ?? {}).filter(([key, value]) => job.tags[key] !== value);
  const suggested = lacking.filter(([key]) => key !== 'owner');
  if (suggested.length === 0) return reason;
  const tags = Object.fromEntries(suggested);
  const flags = suggested.map(([key, value]) => `--provisioner-tag ${key}=${value}`).join(' ');
  const named = suggested.map(([key, value]) => `${key}=${value}`).join(', ');
  return {
    ...reason,
    message:
      `${reason.message} The template names the tags ${named} for its workspaces. They do not apply to the import: to ` +
      `import it with them, push with ${flags}.`,
    template_tags: tags,
  };
}

function nobody(job: WaitingJob, groups: DaemonGroup[]): Pick<PendingReason, 'message' | 'nearest'> {
  const others = groups
    .filter((group) => hasTags(group, job))
    .sort((a, b) => b.available - a.available || a.name.localeCompare(b.name));
  if (others[0]) {
    const each = others.slice(0, MAX_NAMED).map(({ name, engines }) => `${name} has ${enginesText(engines)}`);
    const rest = others.length > MAX_NAMED ? `, and ${others.length - MAX_NAMED} more` : '';
    return {
      message:
        `The template requires Terraform ${job.required_version}. No provisioner daemon that takes its tags has such a ` +
        `version: ${each.join(', ')}${rest}.`,
    };
  }
  const own = groups.filter((group) => group.organization_id === job.organization_id);
  if (own.length > 0 && !own.some((group) => group.provisioners.includes(job.provisioner))) {
    const types = [...new Set(own.flatMap((group) => group.provisioners))].sort().join(', ');
    return {
      message: `No provisioner daemon of this organization runs jobs of type ${job.provisioner}: they run ${types}.`,
    };
  }
  const tags = tagsText(job.tags);
  const text =
    tags === '' ? 'No provisioner daemon takes untagged jobs' : `No provisioner daemon has its tags (${tags})`;
  const [nearest] = own
    .filter((group) => group.provisioners.includes(job.provisioner))
    // another person's own daemons are not shown
    .filter(({ tags }) => tags['scope'] !== 'user' || tags['owner'] === job.tags['owner'])
    .map((group) => ({ group, difference: tagDifference(job.tags, group.tags)! }))
    .sort(
      (a, b) => differenceSize(a.difference) - differenceSize(b.difference) || b.group.available - a.group.available,
    );
  if (job.tags['scope'] === 'user') {
    return {
      message: `${text}: it waits for a daemon that its owner runs (coder provisioner start --tag scope=user).`,
      ...(nearest
        ? { nearest: { name: nearest.group.name, tags: nearest.group.tags, difference: nearest.difference } }
        : {}),
    };
  }
  if (!nearest) {
    return {
      message: `This organization has no provisioner daemon${tags === '' ? '' : ` (its tags: ${tags})`}.`,
    };
  }
  const { group, difference } = nearest;
  return {
    message: `${text}. The nearest is ${group.name}: ${differenceText(difference)}.`,
    nearest: { name: group.name, tags: group.tags, difference },
  };
}
